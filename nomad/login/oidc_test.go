package login_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/internal/testidp"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

const (
	redirect = "http://localhost:4649/oidc/callback"
	nonce    = "a nonce that is long enough"
)

func oidcMethod(p *testidp.Provider) *rbac.AuthMethod {
	return &rbac.AuthMethod{Name: "people", Type: "OIDC", TokenLocality: "local", MaxTokenTTL: time.Hour,
		Config: &rbac.AuthMethodConfig{
			OIDCDiscoveryURL: p.URL, DiscoveryCaPem: []string{p.CA}, OIDCClientID: p.ClientID, OIDCClientSecret: p.Secret,
			AllowedRedirectURIs: []string{redirect}, OIDCScopes: []string{"groups", "openid"},
			ClaimMappings:     map[string]string{"sub": "who", "mail": "mail"},
			ListClaimMappings: map[string]string{"groups": "groups"}}}
}

// browse opens a URL like a browser and returns the parameters of the redirect.
func browse(t testing.TB, p *testidp.Provider, at string) url.Values {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(p.CA))
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer browser.CloseIdleConnections()
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

func returned(q url.Values) login.Callback {
	return login.Callback{State: q.Get("state"), Code: q.Get("code"), Nonce: nonce, Redirect: redirect}
}

func TestOIDC(t *testing.T) {
	for name, edit := range map[string]func(*testidp.Provider, *rbac.AuthMethod){
		"secret": func(*testidp.Provider, *rbac.AuthMethod) {},
		"PKCE":   func(_ *testidp.Provider, m *rbac.AuthMethod) { m.Config.OIDCEnablePKCE = true },
		"public client": func(p *testidp.Provider, m *rbac.AuthMethod) {
			p.Secret, m.Config.OIDCClientSecret, m.Config.OIDCEnablePKCE = "", "", true
		},
		"public client without PKCE": func(p *testidp.Provider, m *rbac.AuthMethod) { p.Secret, m.Config.OIDCClientSecret = "", "" },
		"bound audience":             func(p *testidp.Provider, m *rbac.AuthMethod) { m.Config.BoundAudiences = []string{p.ClientID} },
		"secret in the form": func(p *testidp.Provider, _ *rbac.AuthMethod) {
			p.Discovery = func(doc map[string]any) {
				doc["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := testidp.New(t)
			p.User = map[string]any{"sub": "alice", "groups": []string{"ops"}}
			p.UserInfo = map[string]any{"mail": "a@b.c", "groups": []string{"not the signed ones"}}
			m := oidcMethod(p)
			edit(p, m)
			desk := login.New(login.Config{Now: time.Now})
			at, err := desk.Begin(t.Context(), m, redirect, nonce)
			if err != nil {
				t.Fatal(err)
			}
			if q := mustParse(t, at).Query(); q.Get("scope") != "openid groups" || q.Get("nonce") != nonce ||
				(q.Get("code_challenge") != "") != (m.Config.OIDCEnablePKCE || m.Config.OIDCClientSecret == "") {
				t.Errorf("the login page gets %v", q)
			}
			claims, err := desk.End(t.Context(), m, returned(browse(t, p, at)))
			if err != nil {
				t.Fatal(err)
			}
			if claims.Values["who"] != "alice" || claims.Values["mail"] != "a@b.c" || strings.Join(claims.Lists["groups"], ",") != "ops" {
				t.Errorf("claims = %+v", claims)
			}
		})
	}
}

func mustParse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestOIDCRefuses(t *testing.T) {
	type world struct {
		p    *testidp.Provider
		m    *rbac.AuthMethod
		back *login.Callback
		clk  *clock
	}
	for name, edit := range map[string]func(*world){
		"state of another":     func(w *world) { w.back.State = strings.Repeat("A", 43) },
		"no state":             func(w *world) { w.back.State = "" },
		"nonce of another":     func(w *world) { w.back.Nonce = "the nonce of another one" },
		"redirect not allowed": func(w *world) { w.back.Redirect = "https://evil/oidc/callback" },
		"redirect allowed later": func(w *world) {
			w.back.Redirect = redirect + "2"
			w.m.Config.AllowedRedirectURIs = []string{redirect, redirect + "2"}
		},
		"another method": func(w *world) { w.m = codec.Copy(w.m); w.m.Name = "other" },
		"too late":       func(w *world) { w.clk.pass(5 * time.Minute) },
		"invented code":  func(w *world) { w.back.Code = "made-up" },
		"no code":        func(w *world) { w.back.Code = "" },
		"another issuer": func(w *world) { w.back.Issuer = "https://evil" },
		"missing issuer": func(w *world) {
			w.p.Discovery = func(doc map[string]any) { doc["authorization_response_iss_parameter_supported"] = true }
		},
		"ID token of another login":  func(w *world) { w.p.Edit = func(c map[string]any) { c["nonce"] = "replayed from another login" } },
		"ID token without nonce":     func(w *world) { w.p.Edit = func(c map[string]any) { delete(c, "nonce") } },
		"ID token of another issuer": func(w *world) { w.p.Edit = func(c map[string]any) { c["iss"] = "https://evil" } },
		"ID token of another client": func(w *world) { w.p.Edit = func(c map[string]any) { c["aud"] = "other" } },
		"several audiences":          func(w *world) { w.p.Edit = func(c map[string]any) { c["aud"] = []string{w.p.ClientID, "other"} } },
		"another party":              func(w *world) { w.p.Edit = func(c map[string]any) { c["azp"] = "other" } },
		"not the bound audience":     func(w *world) { w.m.Config.BoundAudiences = []string{"bound"} },
		"no subject":                 func(w *world) { w.p.User = map[string]any{"sub": ""} },
		"expired":                    func(w *world) { w.p.Edit = func(c map[string]any) { c["exp"] = w.clk.now().Unix() - 61 } },
		"alg none": func(w *world) {
			w.p.Sign = func(map[string]any) string { return "eyJhbGciOiJub25lIn0.e30." }
		},
		"HMAC with the client secret": func(w *world) {
			w.p.Sign = func(c map[string]any) string { return testidp.Sign(jose.HS256, []byte(w.p.Secret), nil, c) }
		},
		"user info of another": func(w *world) { w.p.UserInfo = map[string]any{"sub": "bob"} },
		"wrong secret":         func(w *world) { w.m.Config.OIDCClientSecret = "wrong-secret-canary" },
		"wrong verifier":       func(w *world) { w.m.Config.OIDCEnablePKCE = true; w.p.Secret = "another" },
		"token endpoint on plain HTTP": func(w *world) {
			w.p.Discovery = func(doc map[string]any) { doc["token_endpoint"] = "http://192.0.2.1/token" }
		},
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			p := testidp.New(t)
			p.Now = clk.now
			m := oidcMethod(p)
			desk := login.New(login.Config{Now: clk.now})
			at, err := desk.Begin(t.Context(), m, redirect, nonce)
			if err != nil {
				t.Fatal(err)
			}
			back := returned(browse(t, p, at))
			w := &world{p: p, m: m, back: &back, clk: clk}
			edit(w)
			if p.Discovery != nil { // forget the cached metadata
				m.Config.OIDCScopes = append(m.Config.OIDCScopes, "new")
			}
			claims, err := desk.End(t.Context(), w.m, *w.back)
			if err == nil {
				t.Fatalf("End() = %v, want an error", claims)
			}
			for _, secret := range []string{p.Secret, "wrong-secret-canary", w.back.Code, "access-of"} {
				if len(secret) > 7 && strings.Contains(err.Error(), secret) {
					t.Errorf("the error shows %q: %v", secret, err)
				}
			}
		})
	}
}

func TestCodeReplay(t *testing.T) {
	p := testidp.New(t)
	m := oidcMethod(p)
	desk := login.New(login.Config{Now: time.Now})
	at, err := desk.Begin(t.Context(), m, redirect, nonce)
	if err != nil {
		t.Fatal(err)
	}
	back := returned(browse(t, p, at))
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := desk.End(t.Context(), m, back); err == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 50 ended the same login, want 1", won.Load())
	}
}

// A login that begins with another's nonce does not end the other login.
func TestSameNonceOften(t *testing.T) {
	p := testidp.New(t)
	m := oidcMethod(p)
	desk := login.New(login.Config{Now: time.Now})
	states := make(chan string, 1000)
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			at, err := desk.Begin(t.Context(), m, redirect, nonce)
			if err != nil {
				t.Error(err)
				return
			}
			u, err := url.Parse(at)
			if err != nil {
				t.Error(err)
				return
			}
			states <- u.Query().Get("state")
		})
	}
	wg.Wait()
	close(states)
	seen := map[string]bool{}
	for s := range states {
		if seen[s] {
			t.Fatal("two logins have the same state")
		}
		seen[s] = true
	}
}

// However many logins others begin, or end without a valid code, no login is evicted.
func TestLoginsAreNotEvicted(t *testing.T) {
	p, clk := testidp.New(t), newClock()
	p.Now = clk.now
	m := oidcMethod(p)
	m.Config.OIDCEnablePKCE = true
	desk := login.New(login.Config{Now: clk.now})
	first, err := desk.Begin(t.Context(), m, redirect, nonce)
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]bool{}
	for range 10_001 {
		at, err := desk.Begin(t.Context(), m, redirect, nonce)
		if err != nil {
			t.Fatal(err)
		}
		states[mustParse(t, at).Query().Get("state")] = true
	}
	if len(states) != 10_001 {
		t.Errorf("10001 logins have %d states", len(states))
	}
	p.Discovery = func(doc map[string]any) { doc["authorization_response_iss_parameter_supported"] = true }
	for state := range states { // refused before a request to the provider, but ended all the same
		if _, err := desk.End(t.Context(), m,
			login.Callback{State: state, Code: "x", Nonce: nonce, Redirect: redirect, Issuer: "https://evil"}); !errors.Is(err, login.ErrDenied) {
			t.Fatal(err)
		}
	}
	p.Discovery = nil
	if _, err := desk.End(t.Context(), m, returned(browse(t, p, first))); err != nil {
		t.Errorf("the oldest login: %v", err)
	}
}

// A state with any changed byte is refused, and so is the state of another process.
func TestStatesAreSealed(t *testing.T) {
	p := testidp.New(t)
	m := oidcMethod(p)
	desk := login.New(login.Config{Now: time.Now})
	at, err := desk.Begin(t.Context(), m, redirect, nonce)
	if err != nil {
		t.Fatal(err)
	}
	back := returned(browse(t, p, at))
	for n := range len(back.State) {
		changed := []byte(back.State)
		changed[n] = map[bool]byte{true: 'B', false: 'A'}[changed[n] == 'A']
		bad := back
		bad.State = string(changed)
		if _, err := desk.End(t.Context(), m, bad); !errors.Is(err, login.ErrDenied) {
			t.Fatalf("a state with a changed byte %d: %v", n, err)
		}
	}
	if _, err := login.New(login.Config{Now: time.Now}).End(t.Context(), m, back); !errors.Is(err, login.ErrDenied) {
		t.Errorf("the state of another process: %v", err)
	}
	if _, err := desk.End(t.Context(), m, back); err != nil {
		t.Errorf("the unchanged state: %v", err)
	}
}

func TestBeginRefuses(t *testing.T) {
	p := testidp.New(t)
	desk := login.New(login.Config{Now: time.Now})
	for _, tt := range []struct{ redirect, nonce string }{
		{redirect + "/", nonce}, {redirect + "?x=y", nonce}, {strings.ToUpper(redirect), nonce}, {"", nonce},
		{"http://localhost:4649", nonce}, {redirect, "short"}, {redirect, strings.Repeat("n", 257)},
	} {
		if _, err := desk.Begin(t.Context(), oidcMethod(p), tt.redirect, tt.nonce); !errors.Is(err, login.ErrDenied) {
			t.Errorf("Begin(%q, %q) = %v, want it denied", tt.redirect, tt.nonce, err)
		}
	}
	nowhere := oidcMethod(p)
	nowhere.Config.AllowedRedirectURIs = nil
	if _, err := desk.Begin(t.Context(), nowhere, redirect, nonce); !errors.Is(err, login.ErrDenied) {
		t.Errorf("Begin() of a method without redirect URIs = %v, want it denied", err)
	}
}

func TestDiscoveryIsOfTheIssuer(t *testing.T) {
	p := testidp.New(t)
	p.Discovery = func(doc map[string]any) { doc["issuer"] = "https://evil" }
	if _, err := login.New(login.Config{Now: time.Now}).Begin(t.Context(), oidcMethod(p), redirect, nonce); !errors.Is(err,
		login.ErrProvider) {
		t.Errorf("Begin() = %v, want an error of the provider", err)
	}
}
