package acl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// maxConfig is the maximum size of the configuration of an auth method, in bytes.
const maxConfig = 1 << 20

// methodFlags are the flags of the commands that write auth methods.
type methodFlags struct {
	ofType, locality, format, ttl, config string
	isDefault                             **bool
}

func (o *methodFlags) declare(f *term.Flags) {
	f.StringVar(&o.ofType, "type", "", "JWT, for tokens of machines, or OIDC, for users with a browser.")
	f.StringVar(&o.locality, "token-locality", "", "Where tokens from this method are valid: local, in this region, or global.")
	f.StringVar(&o.format, "token-name-format", "",
		"The name of these tokens. It may contain ${auth_method_type}, ${auth_method_name} and\n"+
			"${value.<claim>}. Default ${auth_method_type}-${auth_method_name}.")
	f.StringVar(&o.ttl, "max-token-ttl", "", "The `duration` for which these tokens are valid, such as 8h.")
	f.StringVar(&o.config, "config", "", "The configuration as `JSON`, or @file to read it from a file, or - for standard input.")
	o.isDefault = f.OptBool("default", "Make this the default auth method of its type.")
}

// over sets the fields of m that the flags give.
func (o *methodFlags) over(e *term.Env, m *api.ACLAuthMethod) error {
	m.Type, m.TokenLocality, m.TokenNameFormat = cmp.Or(o.ofType, m.Type), cmp.Or(o.locality, m.TokenLocality), cmp.Or(o.format,
		m.TokenNameFormat)
	if *o.isDefault != nil {
		m.Default = **o.isDefault
	}
	if o.ttl != "" {
		ttl, err := time.ParseDuration(o.ttl)
		if err != nil || ttl <= 0 {
			return fmt.Errorf("-max-token-ttl %q: expected a duration such as 8h", o.ttl)
		}
		m.MaxTokenTTL = ttl
	}
	if o.config == "" {
		return nil
	}
	text, err := o.text(e)
	if err != nil {
		return fmt.Errorf("Error reading the configuration: %w", err)
	}
	if m.Config, err = configOver(m.Config, text); err != nil {
		return fmt.Errorf("Error reading the configuration: %w", err)
	}
	return nil
}

// text returns the configuration from the flag, a file or standard input.
func (o *methodFlags) text(e *term.Env) ([]byte, error) {
	if file, is := strings.CutPrefix(o.config, "@"); is {
		return e.Input(file, maxConfig)
	}
	if o.config == "-" {
		return e.Input(o.config, maxConfig)
	}
	return []byte(o.config), nil
}

// configOver reads a configuration. Missing fields keep their value of old, which may be nil.
func configOver(old *api.ACLAuthMethodConfig, text []byte) (*api.ACLAuthMethodConfig, error) {
	said := map[string]json.RawMessage{}
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&said); err != nil {
		return nil, fmt.Errorf("expected a JSON object: %w", err)
	}
	if dec.More() {
		return nil, errors.New("unexpected text after the JSON object")
	}
	out := map[string]json.RawMessage{}
	if old != nil {
		before, err := json.Marshal(old)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(before, &out); err != nil {
			return nil, err
		}
	}
	for name, v := range said {
		known, err := configField(name)
		if err != nil {
			return nil, err
		}
		out[known] = v
	}
	merged, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	c := new(api.ACLAuthMethodConfig)
	return c, json.Unmarshal(merged, c)
}

// configField finds a field by its name, ignoring case.
func configField(name string) (string, error) {
	var known []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[api.ACLAuthMethodConfig]()) {
		if strings.EqualFold(f.Name, name) {
			return f.Name, nil
		}
		known = append(known, f.Name)
	}
	return "", fmt.Errorf("%q is not one of %s", name, strings.Join(known, ", "))
}

func methodCreateCommand() term.Command {
	return term.Query(term.Command{
		Name: "acl auth-method create", Short: "Create an auth method: a way to log in with an identity provider",
		Long: "    nomad acl auth-method create -name ci -type JWT -token-locality local -max-token-ttl 1h -config @ci.json\n\n" +
			"The configuration has the keys (JWTValidationPubKeys, JWKSURL or OIDCDiscoveryURL), the accepted " +
			"issuers and audiences (BoundIssuer, BoundAudiences) and the claims for binding rules (ClaimMappings, ListClaimMappings).",
	}, func(f *term.Flags) term.Ask[*api.ACLAuthMethod] {
		o := &methodFlags{}
		o.declare(f)
		name := f.String("name", "", "The name of the auth method.")
		return func(ctx context.Context, e *term.Env, c *api.Client) (*api.ACLAuthMethod, error) {
			m := &api.ACLAuthMethod{Name: *name}
			if err := o.over(e, m); err != nil {
				return nil, err
			}
			if old, _, err := c.ACLAuthMethods().Get(*name, reading(ctx)); *name != "" && err == nil {
				return nil, fmt.Errorf("Error creating ACL auth method: %q already exists: use nomad acl auth-method update", old.Name)
			}
			made, _, err := c.ACLAuthMethods().Create(m, writing(ctx))
			if err != nil {
				return nil, refusal("Error creating ACL auth method", err)
			}
			return made, nil
		}
	}, showMethod)
}

func methodUpdateCommand() term.Command {
	return term.Query(term.Command{
		Name: "acl auth-method update", Args: "<acl_auth_method_name>", MinArgs: 1, MaxArgs: 1,
		Short: "Update an auth method",
		Long: "Fields without a flag are unchanged, and so are keys that -config leaves out. The value " +
			"\"redacted\" keeps a secret, unless OIDCDiscoveryURL changes.",
	}, func(f *term.Flags) term.Ask[*api.ACLAuthMethod] {
		o := &methodFlags{}
		o.declare(f)
		return func(ctx context.Context, e *term.Env, c *api.Client) (*api.ACLAuthMethod, error) {
			m, _, err := c.ACLAuthMethods().Get(e.Arg(0), reading(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error reading ACL auth method: %w", err)
			}
			if err := o.over(e, m); err != nil {
				return nil, err
			}
			updated, _, err := c.ACLAuthMethods().Update(m, writing(ctx))
			if err != nil {
				return nil, refusal("Error updating ACL auth method", err)
			}
			return updated, nil
		}
	}, showMethod)
}

func methodDeleteCommand() term.Command {
	return term.Deletion(term.Command{Name: "acl auth-method delete", Args: "<acl_method_name>",
		Short: "Delete an auth method and its binding rules. Existing tokens are valid until they expire"}, "ACL auth method",
		func(c *api.Client, name string, w *api.WriteOptions) (*api.WriteMeta, error) {
			return c.ACLAuthMethods().Delete(name, w)
		})
}

func methodInfoCommand() term.Command {
	return term.Query(term.Command{Name: "acl auth-method info", Args: "<acl_method_name>", MinArgs: 1, MaxArgs: 1,
		Short: "Show an auth method, without its secrets"},
		plain(func(ctx context.Context, e *term.Env, c *api.Client) (*api.ACLAuthMethod, error) {
			m, _, err := c.ACLAuthMethods().Get(e.Arg(0), reading(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error reading ACL auth method: %w", err)
			}
			return m, nil
		}), showMethod)
}

func methodListCommand() term.Command {
	return term.Shown(term.Command{Name: "acl auth-method list", Short: "List the auth methods"},
		func(ctx context.Context, c *api.Client) ([]*api.ACLAuthMethodListStub, error) {
			all, _, err := c.ACLAuthMethods().List(reading(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error listing ACL auth methods: %w", err)
			}
			return all, nil
		},
		func(e *term.Env, all []*api.ACLAuthMethodListStub) {
			if len(all) == 0 {
				e.Println("No ACL auth methods found")
				return
			}
			rows := []string{"Name|Type|Default"}
			for _, m := range all {
				rows = append(rows, term.Row(m.Name, m.Type, m.Default))
			}
			e.Println(term.Table(rows))
		})
}

func showMethod(e *term.Env, m *api.ACLAuthMethod) {
	e.Println(term.Pairs([]string{term.Row("Name", m.Name), term.Row("Type", m.Type), term.Row("Locality", m.TokenLocality),
		term.Row("Max Token TTL", m.MaxTokenTTL), term.Row("Token Name Format", m.TokenNameFormat), term.Row("Default", m.Default),
		term.Row("Create Index", m.CreateIndex), term.Row("Modify Index", m.ModifyIndex)}))
	if m.Config == nil {
		return
	}
	c := m.Config
	list := func(all []string) string { return strings.Join(all, ",") }
	pairs := func(all map[string]string) string {
		var out []string
		for _, k := range slices.Sorted(maps.Keys(all)) {
			out = append(out, k+":"+all[k])
		}
		return list(out)
	}
	rows := []string{term.Row("JWT Validation Public Keys", len(c.JWTValidationPubKeys)), term.Row("JWKS URL", c.JWKSURL),
		term.Row("JWKS CA Cert", given(c.JWKSCACert)),
		term.Row("OIDC Discovery URL", c.OIDCDiscoveryURL), term.Row("Discovery CA PEM", len(c.DiscoveryCaPem)),
		term.Row("OIDC Client ID", c.OIDCClientID),
		term.Row("OIDC Client Secret", c.OIDCClientSecret), term.Row("OIDC Client Assertion", assertion(c.OIDCClientAssertion)),
		term.Row("OIDC Enable PKCE", c.OIDCEnablePKCE),
		term.Row("OIDC Disable UserInfo", c.OIDCDisableUserInfo), term.Row("OIDC Scopes", list(c.OIDCScopes)),
		term.Row("Bound Issuer", list(c.BoundIssuer)),
		term.Row("Bound Audiences", list(c.BoundAudiences)), term.Row("Allowed Redirect URIs", list(c.AllowedRedirectURIs)),
		term.Row("Signing Algorithms", list(c.SigningAlgs)),
		term.Row("Expiration Leeway", c.ExpirationLeeway), term.Row("NotBefore Leeway", c.NotBeforeLeeway),
		term.Row("ClockSkew Leeway", c.ClockSkewLeeway),
		term.Row("Claim Mappings", pairs(c.ClaimMappings)), term.Row("List Claim Mappings", pairs(c.ListClaimMappings)),
		term.Row("Verbose Logging", c.VerboseLogging)}
	e.Println("\n" + e.Bold("Auth Method Config") + "\n" + term.Pairs(rows))
}

// given replaces a value that is too long to show.
func given(text string) string {
	if text == "" {
		return ""
	}
	return "given"
}

// assertion shows the source of the key of a client assertion.
func assertion(a *api.OIDCClientAssertion) string {
	if a == nil {
		return ""
	}
	return "signed by " + string(a.KeySource)
}
