package testconsul

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// directory holds the ACL objects.
type directory struct {
	tokens     map[string]*token // by secret
	policies   map[string]*api.ACLPolicy
	roles      map[string]*api.ACLRole
	methods    map[string]*api.ACLAuthMethod // by name
	bindings   map[string]*api.ACLBindingRule
	management string // a secret
}

// token is an ACL token.
type token struct {
	api.ACLToken
	management bool
	declared   bool      // made by the test
	rules      []rule    // of a declared token
	known      time.Time // unknown before
}

// declare makes the management token.
func (d *directory) declare() {
	d.management = newID()
	d.tokens = map[string]*token{d.management: {management: true, declared: true,
		ACLToken: api.ACLToken{AccessorID: newID(), SecretID: d.management, Description: "Initial Management Token"}}}
}

// reset removes everything but the tokens that the test made.
func (d *directory) reset() {
	maps.DeleteFunc(d.tokens, func(_ string, t *token) bool { return !t.declared })
	d.policies, d.roles = map[string]*api.ACLPolicy{}, map[string]*api.ACLRole{}
	d.methods, d.bindings = map[string]*api.ACLAuthMethod{}, map[string]*api.ACLBindingRule{}
}

// newID returns a random UUID.
func newID() string {
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Management returns the secret of the management token.
func (a *Agent) Management() string { return a.acl.management }

// NewToken returns the secret of a new token with rules, such as `service_prefix "" { policy = "write" }`.
func (a *Agent) NewToken(t testing.TB, rules string) string {
	t.Helper()
	parsed, err := parseRules(rules)
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	secret := newID()
	a.acl.tokens[secret] = &token{ACLToken: api.ACLToken{AccessorID: newID(), SecretID: secret}, declared: true, rules: parsed}
	return secret
}

// Revoke deletes a token.
func (a *Agent) Revoke(secret string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.acl.tokens, secret)
}

// Logins returns the tokens that logins made and that are valid, oldest first.
func (a *Agent) Logins() (out []api.ACLToken) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.acl.tokens {
		if !t.declared && (t.ExpirationTime == nil || a.now().Before(*t.ExpirationTime)) {
			out = append(out, t.ACLToken)
		}
	}
	slices.SortFunc(out, func(x, y api.ACLToken) int { return int(x.CreateIndex) - int(y.CreateIndex) })
	return out
}

// enabled refuses calls about ACLs if they are off.
func (c *call) enabled() error {
	if !c.a.cfg.ACL {
		return refuse(http.StatusUnauthorized, "ACL support disabled")
	}
	return nil
}

func tokenSelf(c *call) (any, uint64, error) {
	if err := c.enabled(); err != nil {
		return nil, 0, err
	}
	if c.who.token == nil {
		return nil, 0, refuse(http.StatusForbidden, "ACL not found")
	}
	return c.who.token, c.a.at("acl"), nil
}

// login serves the exchange of a JWT for a token.
func login(c *call) (any, error) {
	var in api.ACLLoginParams
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if err := c.enabled(); err != nil {
		return nil, err
	}
	a := c.a
	a.mu.Lock()
	method := a.acl.methods[in.AuthMethod]
	now := a.now()
	a.mu.Unlock()
	if method == nil {
		return nil, c.denied("auth method %q not found", in.AuthMethod)
	}
	values, err := verify(method, in.BearerToken, now)
	if err != nil {
		return nil, c.denied("%v", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t, err := a.bind(method, values)
	if err != nil {
		return nil, c.denied("%v", err)
	}
	t.Description = "token created via login"
	if len(in.Meta) > 0 {
		meta, err := json.Marshal(in.Meta)
		if err != nil {
			return nil, err
		}
		t.Description += ": " + string(meta)
	}
	t.AccessorID, t.SecretID, t.CreateTime, t.known = newID(), newID(), a.now(), a.now().Add(a.mode.TokenLag)
	if method.MaxTokenTTL > 0 {
		end := a.now().Add(method.MaxTokenTTL)
		t.ExpirationTime = &end
	}
	t.CreateIndex = a.touch("acl")
	t.ModifyIndex = t.CreateIndex
	a.acl.tokens[t.SecretID] = t
	return &t.ACLToken, nil
}

// denied records a login that fails.
func (c *call) denied(format string, args ...any) error {
	why := fmt.Sprintf(format, args...)
	c.a.faults.Add("POST /v1/acl/login: Permission denied: %s", why)
	return refuse(http.StatusForbidden, "Permission denied: %s", why)
}

var selector = regexp.MustCompile(`^"?(\w+)"? (not )?in value$`)

// bind returns a token with what the binding rules of a method give to the values of a login.
func (a *Agent) bind(method *api.ACLAuthMethod, values map[string]string) (*token, error) {
	t := &token{ACLToken: api.ACLToken{Local: method.TokenLocality != "global", AuthMethod: method.Name}}
	for _, id := range slices.Sorted(maps.Keys(a.acl.bindings)) {
		b := a.acl.bindings[id]
		if b.AuthMethod != method.Name || !selects(b.Selector, values) {
			continue
		}
		name := b.BindName
		for k, v := range values {
			name = strings.ReplaceAll(name, "${value."+k+"}", v)
		}
		if strings.Contains(name, "${") {
			return nil, fmt.Errorf("binding rule %s: value of %q is missing", b.ID, b.BindName)
		}
		switch b.BindType {
		case api.BindingRuleBindTypeService:
			t.ServiceIdentities = append(t.ServiceIdentities, &api.ACLServiceIdentity{ServiceName: name})
		case api.BindingRuleBindTypeRole:
			for _, role := range a.acl.roles {
				if role.Name == name {
					t.Roles = append(t.Roles, &api.ACLTokenRoleLink{ID: role.ID, Name: role.Name})
				}
			}
		}
	}
	if len(t.ServiceIdentities)+len(t.Roles) == 0 {
		return nil, fmt.Errorf("no binding rule of auth method %q gives a right", method.Name)
	}
	return t, nil
}

// selects evaluates a selector, which is empty or tests whether a name is among the values.
func selects(text string, values map[string]string) bool {
	if text == "" {
		return true
	}
	m := selector.FindStringSubmatch(text)
	_, has := values[m[1]]
	return has == (m[2] == "")
}

// logout serves the deletion of the token of the request, which a login made.
func logout(c *call) (any, error) {
	if err := c.enabled(); err != nil {
		return nil, err
	}
	if c.who.token == nil || c.who.token.AuthMethod == "" {
		return nil, c.need("write", "acl", "the token of a login")
	}
	delete(c.a.acl.tokens, c.who.token.SecretID)
	c.a.touch("acl")
	return nil, nil
}
