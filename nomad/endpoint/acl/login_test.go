package acl_test

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/internal/testidp"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

const callbackURI = "http://localhost:4649/oidc/callback"

// method writes an auth method.
func upsertMethod(g *servertest.ACLServer, m *rbac.AuthMethod) (*rbac.AuthMethod, error) {
	var out message.ACLAuthMethodUpsertResponse
	if err := g.Call(g.Root, "ACL.UpsertAuthMethods", &message.ACLAuthMethodUpsertRequest{AuthMethods: []*rbac.AuthMethod{m}},
		&out); err != nil {
		return nil, err
	}
	return out.AuthMethods[0], nil
}

// rule writes a binding rule.
func upsertRule(g *servertest.ACLServer, r *rbac.BindingRule) (*rbac.BindingRule, error) {
	var out message.ACLBindingRulesUpsertResponse
	if err := g.Call(g.Root, "ACL.UpsertBindingRules", &message.ACLBindingRulesUpsertRequest{ACLBindingRules: []*rbac.BindingRule{r}},
		&out); err != nil {
		return nil, err
	}
	return out.ACLBindingRules[0], nil
}

func login(g *servertest.ACLServer, method, token string) (*rbac.Token, error) {
	var out message.ACLLoginResponse
	err := g.Call("", "ACL.Login", &message.ACLLoginRequest{AuthMethodName: method, LoginToken: token}, &out)
	return out.ACLToken, err
}

func machines(p *testidp.Provider) *rbac.AuthMethod {
	return &rbac.AuthMethod{Name: "machines", Type: "JWT", TokenLocality: "local", MaxTokenTTL: time.Hour,
		TokenNameFormat: "${auth_method_name} ${value.who}",
		Config: &rbac.AuthMethodConfig{JWKSURL: p.URL + "/keys", JWKSCACert: p.CA, BoundAudiences: []string{"nomad"},
			ClaimMappings: map[string]string{"sub": "who", "team": "team"}, ListClaimMappings: map[string]string{"groups": "groups"}}}
}

func people(p *testidp.Provider) *rbac.AuthMethod {
	return &rbac.AuthMethod{Name: "people", Type: "OIDC", TokenLocality: "local", MaxTokenTTL: time.Hour,
		Config: &rbac.AuthMethodConfig{
			OIDCDiscoveryURL: p.URL, DiscoveryCaPem: []string{p.CA}, OIDCClientID: p.ClientID, OIDCClientSecret: p.Secret, OIDCEnablePKCE: true,
			AllowedRedirectURIs: []string{callbackURI}, ClaimMappings: map[string]string{"sub": "who"}}}
}

func tokenOf(p *testidp.Provider, more map[string]any) string {
	claims := map[string]any{"aud": "nomad", "sub": "m1", "exp": time.Now().Add(time.Minute).Unix()}
	for k, v := range more {
		claims[k] = v
	}
	return p.Token(claims)
}

func TestLogin_JWT(t *testing.T) {
	g, p := servertest.StartACL(t, nil), testidp.New(t)
	g.CreatePolicy("eng", "default", nil)
	ops := g.CreateRole(&rbac.Role{Name: "ops", Policies: servertest.PolicyLinks("eng")})
	if _, err := upsertMethod(g, machines(p)); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*rbac.BindingRule{
		{BindType: "policy", BindName: "${value.team}"},
		{BindType: "role", BindName: "ops", Selector: `"ops" in list.groups`},
		{BindType: "role", BindName: "gone", Selector: `value.team == "eng"`},
		{BindType: "management", Selector: `"guest" not in list.groups and value.team != "eng" and value.who == "root"`},
	} {
		r.AuthMethod = "machines"
		if _, err := upsertRule(g, r); err != nil {
			t.Fatal(err)
		}
	}
	got, err := login(g, "machines", tokenOf(p, map[string]any{"team": "eng", "groups": []string{"ops"}}))
	if err != nil {
		t.Fatal(err)
	}
	if got.Type != "client" || !slices.Equal(got.Policies, []string{"eng"}) || len(got.Roles) != 1 || got.Roles[0].ID != ops.ID ||
		got.Global || got.Name != "machines m1" ||
		got.ExpirationTTL != time.Hour || got.ExpirationTime == nil || got.ExpirationTime.Sub(got.CreateTime) != time.Hour ||
		!nomad.IsUUID(got.SecretID) {
		t.Errorf("token = %+v", *got)
	}
	var jobs message.JobListResponse
	if err := g.Call(got.SecretID, "Job.List", &message.JobListRequest{QueryOptions: message.QueryOptions{Namespace: "default"}},
		&jobs); err != nil {
		t.Errorf("the token does not have its policy's rights: %v", err)
	}
	if err := g.Call(got.SecretID, "ACL.ListTokens", &message.ACLTokenListRequest{}, nil); err == nil {
		t.Error("the token has more than its policy's rights")
	}
	boss, err := login(g, "machines", tokenOf(p, map[string]any{"sub": "root", "team": "x", "groups": []string{}}))
	if err != nil || boss.Type != "management" || len(boss.Policies)+len(boss.Roles) != 0 {
		t.Errorf("management login = %v, %v", boss, err)
	}
	for name, token := range map[string]string{
		"no rule":            tokenOf(p, map[string]any{"team": "nobody"}),
		"absent groups":      tokenOf(p, map[string]any{"sub": "root", "team": "x"}),
		"wrong audience":     tokenOf(p, map[string]any{"aud": "vault", "team": "eng"}),
		"expired":            tokenOf(p, map[string]any{"exp": time.Now().Add(-time.Hour).Unix(), "team": "eng"}),
		"template injection": tokenOf(p, map[string]any{"team": "${value.who}"}),
	} {
		before := len(listTokens(g))
		if got, err := login(g, "machines", token); !servertest.IsCoded(err, 403, "Permission denied") {
			t.Errorf("%s: %v, %v, want it denied", name, got, err)
		}
		if n := len(listTokens(g)); n != before {
			t.Errorf("%s: a token was created", name)
		}
	}
	for what, want := range map[[2]string]int{{"", "x"}: 400, {"gone", "x"}: 404, {"machines", ""}: 400} {
		if _, err := login(g, what[0], what[1]); !servertest.IsCoded(err, want, "") {
			t.Errorf("login of %q with %q: %v, want %d", what[0], what[1], err, want)
		}
	}
}

func listTokens(g *servertest.ACLServer) []*rbac.TokenStub {
	var out message.ACLTokenListResponse
	g.Must("ACL.ListTokens", &message.ACLTokenListRequest{}, &out)
	return out.Tokens
}

// A browser login may begin and end at any server.
func TestLogin_BrowserThroughFollowers(t *testing.T) {
	all := servertest.Cluster(t, 3, func(c *server.Config) { c.Access.Enabled = true })
	leader, followers := servertest.Split(t, all)
	g := servertest.NewACLServer(t, leader.Server)
	root, err := g.Bootstrap("")
	if err != nil {
		t.Fatal(err)
	}
	g.Root = root.SecretID
	g.CreatePolicy("eng", "default", nil)
	p := testidp.New(t)
	if _, err := upsertMethod(g, people(p)); err != nil {
		t.Fatal(err)
	}
	if _, err := upsertRule(g, &rbac.BindingRule{AuthMethod: "people", BindType: "policy", BindName: "eng",
		Selector: `value.who == "alice"`}); err != nil {
		t.Fatal(err)
	}
	end := browserLogin(g, p, followers[0].Server)
	g.Server = followers[1].Server
	var out message.ACLLoginResponse
	if err := g.Call("", "ACL.OIDCCompleteAuth", end, &out); err != nil || out.ACLToken.Name != "OIDC-people" ||
		!slices.Equal(out.ACLToken.Policies, []string{"eng"}) {
		t.Fatalf("login = %+v, %v", out.ACLToken, err)
	}
	if err := g.Call("", "ACL.OIDCCompleteAuth", end, &out); !servertest.IsCoded(err, 403, "unknown login") {
		t.Errorf("the second end of a login: %v, want it denied", err)
	}
	p.User = map[string]any{"sub": "bob"}
	if err := g.Call("", "ACL.OIDCCompleteAuth", browserLogin(g, p, leader.Server), &out); !servertest.IsCoded(err, 403, "no binding rule") {
		t.Errorf("login of another user: %v, want it denied", err)
	}
}

// browse begins a login at a server and completes it in the browser.
func browserLogin(g *servertest.ACLServer, p *testidp.Provider, at *server.Server) *message.OIDCCompleteAuthRequest {
	g.Helper()
	const nonce = "a nonce that is long enough"
	var begun message.OIDCAuthURLResponse
	other := *g
	other.Server = at
	if err := other.Call("", "ACL.OIDCAuthURL",
		&message.OIDCAuthURLRequest{AuthMethodName: "people", RedirectURI: callbackURI, ClientNonce: nonce}, &begun); err != nil {
		g.Fatal(err)
	}
	q := opened(g.T, p, begun.AuthURL)
	return &message.OIDCCompleteAuthRequest{AuthMethodName: "people", RedirectURI: callbackURI, ClientNonce: nonce, State: q.Get("state"),
		Code: q.Get("code")}
}

// opened opens a URL like a browser and returns the parameters of the redirect.
func opened(t *testing.T, p *testidp.Provider, at string) url.Values {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(p.CA))
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		t.Fatalf("the login page answers %s: %v", resp.Status, err)
	}
	return back.Query()
}

// The keyring signs client assertions for a provider.
func TestLogin_SignedByTheKeyring(t *testing.T) {
	for _, alg := range []string{"", "EdDSA"} {
		g, p := servertest.StartACL(t, nil), testidp.New(t)
		m := people(p)
		m.Config.OIDCClientSecret = ""
		m.Config.OIDCClientAssertion = &rbac.OIDCClientAssertion{KeySource: "nomad", KeyAlgorithm: alg,
			ExtraHeaders: map[string]string{"x-tenant": "t"}}
		if _, err := upsertMethod(g, m); err != nil {
			t.Fatal(err)
		}
		if _, err := upsertRule(g, &rbac.BindingRule{AuthMethod: "people", BindType: "management"}); err != nil {
			t.Fatal(err)
		}
		p.CheckAssertion = func(raw string) error { return checkAssertion(g, raw, p) }
		var out message.ACLLoginResponse
		if err := g.Call("", "ACL.OIDCCompleteAuth", browserLogin(g, p, g.Server), &out); err != nil {
			t.Errorf("algorithm %q: %v", alg, err)
		}
	}
}

// checkAssertion verifies an assertion with the keys that the servers publish.
func checkAssertion(g *servertest.ACLServer, raw string, p *testidp.Provider) error {
	parsed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.RS256, jose.EdDSA})
	if err != nil {
		return err
	}
	keys := servertest.Read[message.KeyringListPublicResponse](g.T, g.Server, "Keyring.ListPublic",
		&message.GenericRequest{QueryOptions: servertest.Global})
	for _, k := range keys.PublicKeys {
		var public any = ed25519.PublicKey(k.PublicKey)
		if k.Algorithm == "RS256" {
			var rsaKey *rsa.PublicKey
			if rsaKey, err = x509.ParsePKCS1PublicKey(k.PublicKey); err != nil {
				return err
			}
			public = rsaKey
		}
		if k.KeyID != parsed.Signatures[0].Header.KeyID {
			continue
		}
		payload, err := parsed.Verify(public)
		if err != nil {
			return err
		}
		var c map[string]any
		if err := json.Unmarshal(payload, &c); err != nil || c["iss"] != p.ClientID || c["sub"] != p.ClientID ||
			fmt.Sprint(c["aud"]) != "["+p.URL+"]" {
			return fmt.Errorf("claims %v, %v", c, err)
		}
		return nil
	}
	return fmt.Errorf("no key")
}

// Without ACLs these requests are refused.
func TestLogin_ACLsDisabled(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	g := servertest.NewACLServer(t, s)
	for method, req := range map[string]any{
		"ACL.Login": &message.ACLLoginRequest{AuthMethodName: "x", LoginToken: "y"}, "ACL.OIDCAuthURL": &message.OIDCAuthURLRequest{},
		"ACL.OIDCCompleteAuth": &message.OIDCCompleteAuthRequest{}, "ACL.ListAuthMethods": &message.ACLAuthMethodListRequest{},
		"ACL.GetAuthMethod": &message.ACLAuthMethodGetRequest{}, "ACL.GetAuthMethods": &message.ACLAuthMethodsGetRequest{},
		"ACL.UpsertAuthMethods": &message.ACLAuthMethodUpsertRequest{}, "ACL.DeleteAuthMethods": &message.ACLAuthMethodDeleteRequest{},
		"ACL.ListBindingRules": &message.ACLBindingRulesListRequest{}, "ACL.GetBindingRule": &message.ACLBindingRuleRequest{},
		"ACL.GetBindingRules": &message.ACLBindingRulesRequest{}, "ACL.UpsertBindingRules": &message.ACLBindingRulesUpsertRequest{},
		"ACL.DeleteBindingRules": &message.ACLBindingRulesDeleteRequest{},
	} {
		if err := g.Call("", method, req, nil); !servertest.IsCoded(err, 400, "ACL support disabled") {
			t.Errorf("%s: %v, want 400", method, err)
		}
	}
}

// The log never contains the secrets of logins, whatever their result.
func TestLogin_NoSecretInTheLog(t *testing.T) {
	s, log := servertest.StartTracing(t, func(c *server.Config) { c.Access.Enabled = true })
	g := servertest.NewACLServer(t, s)
	root, err := g.Bootstrap("")
	if err != nil {
		t.Fatal(err)
	}
	g.Root = root.SecretID
	p := testidp.New(t)
	m := people(p)
	m.Config.VerboseLogging = true
	jwt := machines(p)
	jwt.Config.VerboseLogging = true
	for _, m := range []*rbac.AuthMethod{m, jwt} {
		if _, err := upsertMethod(g, m); err != nil {
			t.Fatal(err)
		}
		if _, err := upsertRule(g, &rbac.BindingRule{AuthMethod: m.Name, BindType: "management",
			Selector: `value.who == "alice"`}); err != nil {
			t.Fatal(err)
		}
	}
	var out message.ACLLoginResponse
	end := browserLogin(g, p, s)
	if err := g.Call("", "ACL.OIDCCompleteAuth", end, &out); err != nil {
		t.Fatal(err)
	}
	token := tokenOf(p, nil)
	if _, err := login(g, "machines", token); err == nil {
		t.Fatal("a login without a rule that matches")
	}
	if _, err := login(g, "machines", tokenOf(p, map[string]any{"aud": "x"})); err == nil {
		t.Fatal("a login for another audience")
	}
	p.Discovery = func(map[string]any) {}
	again := browserLogin(g, p, s)
	p.Secret = "now it is another one"
	if err := g.Call("", "ACL.OIDCCompleteAuth", again, &out); err == nil {
		t.Fatal("a login with the wrong secret")
	}
	text := log.String()
	if !strings.Contains(text, "value.who=alice") || !strings.Contains(text, "logged in") {
		t.Error("verbose logging logs nothing")
	}
	parts := strings.Split(token, ".")
	for what, secret := range map[string]string{"the client secret": m.Config.OIDCClientSecret, "an ACL token": out.ACLToken.SecretID,
		"a login token": parts[1], "a signature": parts[2],
		"a code": end.Code, "a state": end.State, "an access token": "access-of", "a nonce": end.ClientNonce} {
		if strings.Contains(text, secret) {
			t.Errorf("the log contains %s", what)
		}
	}
}
