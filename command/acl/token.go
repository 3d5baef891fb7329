package acl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

const (
	management = "management" // the type of tokens with every right

	// maxToken is the maximum size of a file with a token, in bytes.
	maxToken = 1 << 20
)

// grants are the flags with the policies and roles of a token.
type grants struct{ policies, roleIDs, roleNames *[]string }

func (g *grants) declare(f *term.Flags) {
	g.policies = f.Strings("policy", "A `policy` of the token. May be repeated.")
	g.roleIDs = f.Strings("role-id", "The `ID` of a role of the token. May be repeated.")
	g.roleNames = f.Strings("role-name", "The `name` of a role of the token. May be repeated.")
}

// over replaces the policies and roles of t by those of the flags.
func (g *grants) over(t *api.ACLToken) {
	if len(*g.policies) > 0 {
		t.Policies = *g.policies
	}
	if len(*g.roleIDs)+len(*g.roleNames) == 0 {
		return
	}
	t.Roles = nil
	for _, id := range *g.roleIDs {
		t.Roles = append(t.Roles, &api.ACLTokenRoleLink{ID: id})
	}
	for _, name := range *g.roleNames {
		t.Roles = append(t.Roles, &api.ACLTokenRoleLink{Name: name})
	}
}

// tokenFlags are the flags of acl token create.
type tokenFlags struct {
	grants
	token    api.ACLToken
	ttl      string
	ofType   string
	isGlobal **bool
}

func (o *tokenFlags) declare(f *term.Flags) {
	o.grants.declare(f)
	f.StringVar(&o.token.Name, "name", "", "The name of the token.")
	f.StringVar(&o.token.AccessorID, "accessor", "", "The accessor `ID` of the token, a UUID. Default: chosen by the servers.")
	f.StringVar(&o.ofType, "type", "", "client, or management, which has every right and no policies. Default client.")
	f.StringVar(&o.ttl, "ttl", "", "The `duration` for which the token is valid, such as 8h. Default: until it is deleted.")
	o.isGlobal = f.OptBool("global", "Make the token valid in all regions.")
}

// over sets the fields of t that the flags give.
func (o *tokenFlags) over(t *api.ACLToken) error {
	o.grants.over(t)
	t.Name, t.AccessorID = cmp.Or(o.token.Name, t.Name), cmp.Or(o.token.AccessorID, t.AccessorID)
	t.Type = cmp.Or(o.ofType, t.Type, "client")
	if *o.isGlobal != nil {
		t.Global = **o.isGlobal
	}
	if o.ttl == "" {
		return nil
	}
	ttl, err := time.ParseDuration(o.ttl)
	if err != nil || ttl <= 0 {
		return fmt.Errorf("-ttl %q: expected a duration such as 8h", o.ttl)
	}
	t.ExpirationTTL, t.ExpirationTime = ttl, nil
	return nil
}

func tokenCreateCommand() term.Command {
	return term.Query(term.Command{
		Name: "acl token create", Args: "[path]", MaxArgs: 1,
		Short: "Create a token",
		Long: "A file (- for standard input) may have the token as JSON, with the names that -json prints. Flags override it.\n\n" +
			"    nomad acl token create -name deployer -policy deploy -ttl 8h",
	}, func(f *term.Flags) term.Ask[*api.ACLToken] {
		o := &tokenFlags{}
		o.declare(f)
		return func(ctx context.Context, e *term.Env, c *api.Client) (*api.ACLToken, error) {
			t, err := tokenFile(e)
			if err == nil {
				err = o.over(t)
			}
			if err != nil {
				return nil, err
			}
			made, _, err := c.ACLTokens().Create(t, writing(ctx))
			if err != nil {
				return nil, refusal("Error creating token", err)
			}
			return made, nil
		}
	}, showToken)
}

// tokenFile reads the token from the file that the argument names, an empty one without it.
func tokenFile(e *term.Env) (*api.ACLToken, error) {
	t := &api.ACLToken{}
	if e.Arg(0) == "" {
		return t, nil
	}
	text, err := e.Input(e.Arg(0), maxToken)
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(t)
	}
	if err != nil {
		return nil, fmt.Errorf("Error reading the token: %w", err)
	}
	return t, nil
}

func tokenUpdateCommand() term.Command {
	return term.Query(term.Command{
		Name: "acl token update", Args: "<token_accessor_id>", MinArgs: 1, MaxArgs: 1,
		Short: "Update the name, the policies or the roles of a token",
		Long: "Fields without a flag are unchanged. The policies of the flags replace the old ones, and so do the " +
			"roles. The change takes effect at once, also for blocking queries.",
	}, func(f *term.Flags) term.Ask[*api.ACLToken] {
		g := &grants{}
		g.declare(f)
		name := f.String("name", "", "The name of the token.")
		ofType := f.String("type", "", "The type of the token. It cannot be changed.")
		return func(ctx context.Context, e *term.Env, c *api.Client) (*api.ACLToken, error) {
			t, _, err := c.ACLTokens().Info(e.Arg(0), reading(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error fetching token: %w", err)
			}
			t.Name, t.Type = cmp.Or(*name, t.Name), cmp.Or(*ofType, t.Type)
			g.over(t)
			updated, _, err := c.ACLTokens().Update(t, writing(ctx))
			if err != nil {
				return nil, refusal("Error updating token", err)
			}
			updated.SecretID = "" // do not print the secret again
			return updated, nil
		}
	}, showToken)
}

func tokenDeleteCommand() term.Command {
	return term.Deletion(term.Command{Name: "acl token delete", Args: "<token_accessor_id>",
		Short: "Delete a token, which is invalid at once"}, "token",
		func(c *api.Client, accessor string, w *api.WriteOptions) (*api.WriteMeta, error) {
			return c.ACLTokens().Delete(accessor, w)
		})
}

func tokenInfoCommand() term.Command {
	return term.Query(term.Command{Name: "acl token info", Args: "<token_accessor_id>", MinArgs: 1, MaxArgs: 1,
		Short: "Show a token with its secret ID"},
		plain(func(ctx context.Context, e *term.Env, c *api.Client) (*api.ACLToken, error) {
			t, _, err := c.ACLTokens().Info(e.Arg(0), reading(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error fetching token: %w", err)
			}
			return t, nil
		}), showToken)
}

func tokenSelfCommand() term.Command {
	return term.Query(term.Command{Name: "acl token self", Short: "Show your own token"},
		plain(func(ctx context.Context, _ *term.Env, c *api.Client) (*api.ACLToken, error) {
			t, _, err := c.ACLTokens().Self(reading(ctx))
			switch {
			case err != nil:
				return nil, fmt.Errorf("Error fetching self token: %w", err)
			case t == nil, t.AccessorID == "anonymous":
				return nil, errors.New("Error fetching self token: no token is set")
			}
			return t, nil
		}), showToken)
}

func tokenListCommand() term.Command {
	return term.Shown(term.Command{Name: "acl token list", Short: "List the tokens, without their secret IDs"},
		func(ctx context.Context, c *api.Client) ([]*api.ACLTokenListStub, error) {
			all, _, err := c.ACLTokens().List(reading(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error listing tokens: %w", err)
			}
			return all, nil
		},
		func(e *term.Env, all []*api.ACLTokenListStub) {
			if len(all) == 0 {
				e.Println("No tokens found")
				return
			}
			now, rows := time.Now(), []string{"Name|Type|Global|Accessor ID|Expired"}
			for _, t := range all {
				rows = append(rows, term.Row(t.Name, t.Type, t.Global, t.AccessorID, t.ExpirationTime != nil && t.ExpirationTime.Before(now)))
			}
			e.Println(term.Table(rows))
		})
}

// showToken prints a token, with its secret ID if it has one.
func showToken(e *term.Env, t *api.ACLToken) {
	rows := []string{term.Row("Accessor ID", t.AccessorID)}
	if t.SecretID != "" {
		rows = append(rows, term.Row("Secret ID", t.SecretID))
	}
	expiry, policies := "<none>", strings.Join(t.Policies, ",")
	if t.ExpirationTime != nil && !t.ExpirationTime.IsZero() {
		expiry = term.Time(*t.ExpirationTime)
	}
	if t.Type == management {
		policies = "n/a"
	}
	rows = append(rows, term.Row("Name", t.Name), term.Row("Type", t.Type), term.Row("Global", t.Global),
		term.Row("Create Time", term.Time(t.CreateTime)), term.Row("Expiry Time", expiry),
		term.Row("Create Index", t.CreateIndex), term.Row("Modify Index", t.ModifyIndex), term.Row("Policies", policies))
	e.Println(term.Pairs(rows))
	if len(t.Roles) == 0 {
		return
	}
	roles := []string{"ID|Name"}
	for _, r := range slices.SortedFunc(slices.Values(t.Roles), func(a, b *api.ACLTokenRoleLink) int { return cmp.Compare(a.Name, b.Name) }) {
		roles = append(roles, term.Row(r.ID, r.Name))
	}
	e.Println("\n" + e.Bold("Roles") + "\n" + term.Table(roles))
}
