package testvault

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/internal/testjwks"
)

// auth is an auth method of type jwt.
type auth struct {
	accessor    string
	description string
	config      authConfig
	roles       map[string]role
}

// alias is what a user claim names. All its tokens share it, and each login replaces the metadata.
type alias struct {
	accessor string // of the auth method
	metadata map[string]string
}

// authConfig is the configuration of an auth method.
type authConfig struct {
	URL         string `json:"jwks_url"`
	CAPEM       string `json:"jwks_ca_pem"`
	Algorithms  list   `json:"jwt_supported_algs"`
	DefaultRole string `json:"default_role"`
	BoundIssuer string `json:"bound_issuer"`
}

// role is a role of an auth method.
type role struct {
	Type            string            `json:"role_type"`
	BoundAudiences  list              `json:"bound_audiences"`
	BoundSubject    string            `json:"bound_subject"`
	BoundClaims     map[string]any    `json:"bound_claims"`
	UserClaim       string            `json:"user_claim"`
	UserPointer     bool              `json:"user_claim_json_pointer"`
	ClaimMappings   map[string]string `json:"claim_mappings"`
	TokenType       string            `json:"token_type"`
	TokenPolicies   list              `json:"token_policies"`
	TokenTTL        seconds           `json:"token_ttl"`
	TokenMaxTTL     seconds           `json:"token_max_ttl"`
	TokenPeriod     seconds           `json:"token_period"`
	NoDefaultPolicy bool              `json:"token_no_default_policy"`
}

// claim returns the value of a claim by its name or its JSON pointer, nil if there is none.
func claim(claims map[string]any, name string) any {
	if !strings.HasPrefix(name, "/") {
		return claims[name]
	}
	var at any = claims
	for part := range strings.SplitSeq(name[1:], "/") {
		object, _ := at.(map[string]any)
		at = object[part]
	}
	return at
}

// admit returns an error in the words of Vault if claims do not fit a role.
func (r *role) admit(cfg *authConfig, claims map[string]any, now time.Time) error {
	bound := func(a string) bool { return slices.Contains(r.BoundAudiences, a) }
	audiences := testjwks.Audiences(claims)
	switch {
	case len(audiences) > 0 && !slices.ContainsFunc(audiences, bound):
		return errors.New("invalid audience (aud) claim: audience claim does not match any bound audience")
	case cfg.BoundIssuer != "" && claims["iss"] != cfg.BoundIssuer:
		return errors.New("invalid issuer (iss) claim")
	case r.BoundSubject != "" && claims["sub"] != r.BoundSubject:
		return errors.New("invalid subject (sub) claim")
	}
	if err := testjwks.CheckTimes(claims, now); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.BoundClaims)) {
		got := claim(claims, name)
		if got == nil {
			return fmt.Errorf("error validating claims: claim %q is missing", name)
		}
		want, isList := r.BoundClaims[name].([]any)
		if !isList {
			want = []any{r.BoundClaims[name]}
		}
		if !slices.Contains(want, got) {
			return fmt.Errorf("error validating claims: claim %q does not match any associated bound claim values", name)
		}
	}
	return nil
}

// login serves a login by JWT. It does not hold mu while it fetches keys.
func login(c *call) (*answer, error) {
	path := strings.TrimSuffix(strings.TrimPrefix(c.path, "auth/"), "login")
	c.v.mu.Lock()
	sealed, method := c.v.sealed, c.v.auths[path]
	var in struct{ JWT, Role string }
	err := c.decode(&in)
	var cfg authConfig
	var r role
	known := false
	if method != nil {
		cfg = method.config
		if in.Role == "" {
			in.Role = cfg.DefaultRole
		}
		r, known = method.roles[in.Role]
	}
	c.v.mu.Unlock()
	namespace := strings.Trim(c.Header.Get("X-Vault-Namespace"), "/")
	switch {
	case sealed:
		return nil, refuse(http.StatusServiceUnavailable, "Vault is sealed")
	case err != nil:
		return nil, err
	case namespace != c.v.cfg.Namespace:
		return nil, c.invalid("namespace %q, want %q", namespace, c.v.cfg.Namespace)
	case method == nil:
		c.fault("permission denied: no auth method is mounted there")
		return nil, unknownToken()
	case in.Role == "":
		return nil, c.invalid("missing role")
	case !known:
		return nil, c.invalid("role %q could not be found", in.Role)
	}
	source := testjwks.Source{URL: cfg.URL, CAPEM: cfg.CAPEM}
	for _, alg := range cfg.Algorithms {
		source.Algorithms = append(source.Algorithms, jose.SignatureAlgorithm(alg))
	}
	claims, err := source.Claims(in.JWT)
	if err != nil {
		return nil, c.invalid("error validating token: %v", err)
	}
	c.v.mu.Lock()
	defer c.v.mu.Unlock()
	if err := r.admit(&cfg, claims, c.v.now()); err != nil {
		return nil, c.invalid("error validating token: %v", err)
	}
	return c.enter(method, in.Role, claims)
}

// enter returns the token of verified claims. The caller holds mu.
func (c *call) enter(method *auth, name string, claims map[string]any) (*answer, error) {
	r := method.roles[name]
	user, ok := claim(claims, r.UserClaim).(string)
	if !ok || user == "" {
		return nil, c.invalid("claim %q not found in token", r.UserClaim)
	}
	t := token{kind: r.TokenType, policies: slices.Clone(r.TokenPolicies), ttl: time.Duration(r.TokenTTL), max: time.Duration(r.TokenMaxTTL),
		period: time.Duration(r.TokenPeriod), renewable: true, path: c.path, name: "jwt-" + user,
		metadata: map[string]string{"role": name}, entity: "entity-" + user}
	if !r.NoDefaultPolicy {
		t.policies = append(t.policies, "default")
	}
	for from, to := range r.ClaimMappings {
		value, ok := claim(claims, from).(string)
		if !ok {
			return nil, c.invalid("claim %q not found in token", from)
		}
		t.metadata[to] = value
	}
	id := method.accessor + "/" + user
	if t.alias = c.v.aliases[id]; t.alias == nil {
		t.alias = &alias{accessor: method.accessor}
		c.v.aliases[id] = t.alias
	}
	t.alias.metadata = t.metadata
	issued := c.v.issue(t)
	c.v.record(issued)
	return &answer{Auth: c.v.authOf(issued)}, nil
}

// enableAuth serves the creation of an auth method.
func enableAuth(c *call) (*answer, error) {
	var in struct {
		Type, Description                      string
		Config, Options                        map[string]any
		Local                                  bool
		SealWrap                               bool `json:"seal_wrap"`
		ExternalEntropyAccess                  bool `json:"external_entropy_access"`
		PluginName, PluginVersion, DisplayName string
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	path := strings.Trim(c.PathValue("path"), "/") + "/"
	switch {
	case in.Type != "jwt":
		return nil, c.invalid("auth method type %q is not supported", in.Type)
	case c.v.auths[path] != nil:
		return nil, c.invalid("path is already in use at %s", path)
	}
	c.v.auths[path] = &auth{accessor: "auth_jwt_" + rand.Text()[:8], description: in.Description, roles: map[string]role{}}
	return nil, nil
}

func readAuth(c *call) (*answer, error) {
	method := c.v.auths[strings.Trim(c.PathValue("path"), "/")+"/"]
	if method == nil {
		return nil, refuse(http.StatusBadRequest, "No auth engine at %s/", c.PathValue("path"))
	}
	return &answer{Data: map[string]any{"accessor": method.accessor, "type": "jwt", "description": method.description}}, nil
}

// disableAuth removes an auth method and the tokens of its logins.
func disableAuth(c *call) (*answer, error) {
	path := strings.Trim(c.PathValue("path"), "/") + "/"
	if method := c.v.auths[path]; method != nil {
		for id, t := range c.v.tokens {
			if t.alias != nil && t.alias.accessor == method.accessor {
				c.v.drop(id, Revoked)
			}
		}
	}
	delete(c.v.auths, path)
	return nil, nil
}

// authPath serves the configuration and the roles of an auth method.
func authPath(c *call) (*answer, error) {
	for at, method := range c.v.auths {
		rest, ok := strings.CutPrefix(c.path, "auth/"+at)
		switch name, isRole := strings.CutPrefix(rest, "role/"); {
		case !ok:
			continue
		case rest == "config":
			return c.methodConfig(method)
		case (rest == "role" || rest == "role/") && c.lists():
			return c.keys(slices.Sorted(maps.Keys(method.roles)))
		case isRole:
			return c.role(method, name)
		}
	}
	c.fault("unexpected call")
	return nil, refuse(http.StatusNotFound, "no handler for route %q", c.path)
}

func (c *call) methodConfig(method *auth) (*answer, error) {
	if c.Method == http.MethodGet && method.config.URL == "" {
		return nil, missing
	}
	if c.Method == http.MethodGet {
		return &answer{Data: method.config}, nil
	}
	var in authConfig
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.URL == "" {
		return nil, c.invalid("jwks_url is missing")
	}
	if len(in.Algorithms) == 0 {
		in.Algorithms = list{string(jose.RS256)}
	}
	if err := (testjwks.Source{URL: in.URL, CAPEM: in.CAPEM}).Check(); err != nil {
		return nil, c.invalid("error checking jwks URL %s: %v", in.URL, err)
	}
	method.config = in
	return nil, nil
}

func (c *call) role(method *auth, name string) (*answer, error) {
	r, known := method.roles[name]
	switch c.Method {
	case http.MethodGet:
		if !known {
			return nil, missing
		}
		return &answer{Data: r}, nil
	case http.MethodDelete:
		delete(method.roles, name)
		return nil, nil
	}
	in := role{TokenType: "service"}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	switch {
	case in.Type != "jwt":
		return nil, c.invalid("invalid 'role_type': %s", in.Type)
	case in.UserClaim == "":
		return nil, c.invalid("a user claim must be defined on the role")
	case len(in.BoundAudiences) == 0 && in.BoundSubject == "" && len(in.BoundClaims) == 0:
		return nil, c.invalid("must have at least one bound constraint when creating/updating a role")
	case in.TokenType != "service" && in.TokenType != "batch":
		return nil, c.invalid("invalid 'token_type': %s", in.TokenType)
	case in.TokenType == "batch" && in.TokenPeriod != 0:
		return nil, c.invalid("'token_type' cannot be 'batch' when role is set to generate periodic tokens")
	}
	method.roles[name] = in
	return nil, nil
}

// keys returns a list. An empty one does not exist.
func (c *call) keys(names []string) (*answer, error) {
	if len(names) == 0 {
		return nil, missing
	}
	return &answer{Data: map[string]any{"keys": names}}, nil
}

func listPolicies(c *call) (*answer, error) {
	return c.keys(slices.Sorted(maps.Keys(c.v.policies)))
}

// policy serves a policy.
func policy(c *call) (*answer, error) {
	name := c.PathValue("name")
	switch c.Method {
	case http.MethodGet:
		d, ok := c.v.policies[name]
		if !ok {
			return nil, missing
		}
		return &answer{Data: map[string]any{"name": name, "policy": d.text}}, nil
	case http.MethodDelete:
		delete(c.v.policies, name)
		return nil, nil
	}
	var in struct{ Policy string }
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if text, err := base64.StdEncoding.DecodeString(in.Policy); err == nil {
		in.Policy = string(text)
	}
	d, err := parse(in.Policy)
	if err != nil {
		return nil, c.invalid("%v", err)
	}
	c.v.policies[name] = d
	return nil, nil
}
