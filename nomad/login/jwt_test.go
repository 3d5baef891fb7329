package login_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/internal/testidp"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// clock is an adjustable clock.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

func (c *clock) pass(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.at = c.at.Add(d) }

func newClock() *clock { return &clock{at: time.Unix(1_800_000_000, 0)} }

func pemOf(t testing.TB, public any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func jwtMethod(c rbac.AuthMethodConfig) *rbac.AuthMethod {
	return &rbac.AuthMethod{Name: "ci", Type: "JWT", TokenLocality: "local", MaxTokenTTL: time.Hour, Config: &c}
}

// with returns a copy of the claims with other values. A nil value removes a claim.
func with(claims map[string]any, pairs ...any) map[string]any {
	out := maps.Clone(claims)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == nil {
			delete(out, pairs[i].(string))
			continue
		}
		out[pairs[i].(string)] = pairs[i+1]
	}
	return out
}

func TestLoginRefuses(t *testing.T) {
	clk := newClock()
	now := clk.at.Unix()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public := pemOf(t, key.Public())
	good := map[string]any{"iss": "https://ci", "aud": "nomad", "sub": "x", "iat": now, "nbf": now, "exp": now + 60}
	conf := rbac.AuthMethodConfig{JWTValidationPubKeys: []string{public}, BoundIssuer: []string{"https://ci"},
		BoundAudiences: []string{"nomad", "also"},
		ClaimMappings:  map[string]string{"sub": "who"}}
	signed := func(claims map[string]any) string { return testidp.Sign(jose.RS256, key, nil, claims) }
	b64 := base64.RawURLEncoding.EncodeToString
	unsigned := func(alg string) string {
		return b64([]byte(`{"alg":"`+alg+`"}`)) + "." + strings.Split(signed(good), ".")[1] + "."
	}
	parts := strings.Split(signed(good), ".")
	tests := []struct {
		name, token string
		edit        func(*rbac.AuthMethodConfig)
		good        bool
	}{
		{name: "good", token: signed(good), good: true},
		{name: "audience in a list", token: signed(with(good, "aud", []string{"x", "also"})), good: true},
		{name: "wrong issuer", token: signed(with(good, "iss", "https://evil"))},
		{name: "no issuer", token: signed(with(good, "iss", nil))},
		{name: "issuer of another type", token: signed(with(good, "iss", []string{"https://ci"}))},
		{name: "wrong audience", token: signed(with(good, "aud", "vault"))},
		{name: "audience with a prefix", token: signed(with(good, "aud", "nomad2"))},
		{name: "no audience", token: signed(with(good, "aud", nil))},
		{name: "audience is a number", token: signed(with(good, "aud", 5))},
		{name: "audience nobody bound", token: signed(good), edit: func(c *rbac.AuthMethodConfig) { c.BoundAudiences = nil }},
		{name: "no audience and none bound", token: signed(with(good, "aud", nil)),
			edit: func(c *rbac.AuthMethodConfig) { c.BoundAudiences = nil }, good: true},
		{name: "expired", token: signed(with(good, "exp", now-61))},
		{name: "expired within the skew", token: signed(with(good, "exp", now-50)), good: true},
		{name: "expired, no skew", token: signed(with(good, "exp", now-1)), edit: func(c *rbac.AuthMethodConfig) { c.ClockSkewLeeway = -1 }},
		{name: "begins later", token: signed(with(good, "nbf", now+61))},
		{name: "issued later", token: signed(with(good, "iat", now+61))},
		{name: "no times", token: signed(with(good, "iat", nil, "nbf", nil, "exp", nil))},
		{name: "no end, new", token: signed(with(good, "exp", nil, "iat", now-100, "nbf", nil)), good: true},
		{name: "no end, old", token: signed(with(good, "exp", nil, "iat", now-211, "nbf", nil))},
		{name: "no end, no leeway", token: signed(with(good, "exp", nil, "iat", now-61, "nbf", nil)),
			edit: func(c *rbac.AuthMethodConfig) { c.ExpirationLeeway = -1 }},
		{name: "end only, far", token: signed(with(good, "exp", now+211, "iat", nil, "nbf", nil))},
		{name: "end is text", token: signed(with(good, "exp", "tomorrow"))},
		{name: "end in a number of text", token: signed(with(good, "exp", fmt.Sprint(now+60)))},
		{name: "end is null", token: signed(with(good, "exp", any((*int)(nil))))},
		{name: "end is huge", token: signed(with(good, "exp", 1e300))},
		{name: "end is negative", token: signed(with(good, "exp", -1))},
		{name: "alg none", token: unsigned("none")},
		{name: "alg None", token: unsigned("None")},
		{name: "no signature", token: parts[0] + "." + parts[1] + "."},
		{name: "HMAC with the public key", token: testidp.Sign(jose.HS256, []byte(public), nil, good)},
		{name: "HMAC that a method asks for", token: testidp.Sign(jose.HS256, []byte(public), nil, good),
			edit: func(c *rbac.AuthMethodConfig) { c.SigningAlgs = []string{"HS256"} }},
		{name: "algorithm not allowed", token: testidp.Sign(jose.RS512, key, nil, good)},
		{name: "algorithm allowed", token: testidp.Sign(jose.PS256, key, nil, good),
			edit: func(c *rbac.AuthMethodConfig) { c.SigningAlgs = []string{"PS256"} }, good: true},
		{name: "another key", token: testidp.Sign(jose.RS256, other, nil, good)},
		{name: "key in the header", token: testidp.Sign(jose.RS256, other, map[string]any{"jwk": jose.JSONWebKey{Key: other.Public()}}, good)},
		{name: "URL of keys in the header", token: testidp.Sign(jose.RS256, other, map[string]any{"jku": "https://127.0.0.1:1/keys"}, good)},
		{name: "critical header", token: testidp.Sign(jose.RS256, key, map[string]any{"crit": []string{"x"}, "x": "y"}, good)},
		{name: "payload changed", token: parts[0] + "." + b64([]byte(`{"iss":"https://ci"}`)) + "." + parts[2]},
		{name: "four parts", token: signed(good) + ".e30"},
		{name: "JSON form", token: `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`},
		{name: "empty", token: ""},
		{name: "dots", token: strings.Repeat(".", 1000)},
		{name: "1 MiB", token: strings.Repeat("a", 1<<20)},
		{name: "1 MiB that is signed", token: signed(with(good, "pad", strings.Repeat("a", 1<<20)))},
		{name: "mapped claim is an object", token: signed(with(good, "sub", map[string]any{"a": 1}))},
		{name: "deep", token: signed(with(good, "deep", deep(40)))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := conf
			if tt.edit != nil {
				tt.edit(&c)
			}
			claims, err := login.New(login.Config{Now: clk.now}).Login(t.Context(), jwtMethod(c), tt.token)
			if tt.good {
				if err != nil || claims.Values["who"] != "x" {
					t.Errorf("Login() = %v, %v, want the claims", claims, err)
				}
				return
			}
			if err == nil {
				t.Fatalf("Login() = %v, want an error", claims)
			}
			for _, part := range parts { // long parts of a token must not appear in errors
				if strings.Contains(err.Error(), part) {
					t.Errorf("the error shows a part of the token: %v", err)
				}
			}
		})
	}
}

// deep returns nested objects.
func deep(n int) any {
	if n == 0 {
		return 1
	}
	return map[string]any{"a": deep(n - 1)}
}

func TestKeyTypes(t *testing.T) {
	clk := newClock()
	claims := map[string]any{"exp": clk.at.Unix() + 60, "sub": "x"}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{pemOf(t, rsaKey.Public()), pemOf(t, p256.Public()), pemOf(t, p384.Public()), pemOf(t, ed.Public())}
	for alg, key := range map[jose.SignatureAlgorithm]any{jose.RS256: rsaKey, jose.PS384: rsaKey, jose.ES256: p256, jose.ES384: p384,
		jose.EdDSA: ed} {
		desk := login.New(login.Config{Now: clk.now})
		token := testidp.Sign(alg, key, map[string]any{"kid": "any"}, claims)
		m := jwtMethod(rbac.AuthMethodConfig{JWTValidationPubKeys: keys, SigningAlgs: []string{string(alg)}})
		if _, err := desk.Login(t.Context(), m, token); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
		if alg == jose.RS256 {
			continue
		}
		m.Config.SigningAlgs = nil // the default is RS256 only
		if _, err := desk.Login(t.Context(), m, token); !errors.Is(err, login.ErrDenied) {
			t.Errorf("%s with the default algorithms: %v, want it denied", alg, err)
		}
	}
}

func TestJWKSRotation(t *testing.T) {
	p, clk := testidp.New(t), newClock()
	m := jwtMethod(rbac.AuthMethodConfig{JWKSURL: p.URL + "/keys", JWKSCACert: p.CA})
	desk := login.New(login.Config{Now: clk.now})
	logIn := func(token string) error { _, err := desk.Login(t.Context(), m, token); return err }
	fresh := func() map[string]any { return map[string]any{"exp": clk.now().Unix() + 60} }
	if err := logIn(p.Token(fresh())); err != nil {
		t.Fatal(err)
	}
	old := p.Token(with(fresh(), "iat", clk.now().Unix(), "exp", clk.now().Add(time.Hour).Unix()))
	if err := logIn(old); err != nil {
		t.Fatal(err)
	}
	p.Rotate(t)
	clk.pass(11 * time.Second)
	if err := logIn(p.Token(fresh())); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
	if err := logIn(old); !errors.Is(err, login.ErrDenied) {
		t.Errorf("a token of the removed key: %v, want it denied", err)
	}
	if n := p.Fetches(); n != 2 {
		t.Errorf("%d fetches, want 2: the key ID of the old token came within the pause", n)
	}

	// A key that the provider removes stays valid while the set is cached, no longer.
	kept := p.Token(with(fresh(), "iat", clk.now().Unix(), "exp", clk.now().Add(time.Hour).Unix()))
	clk.pass(11 * time.Second)
	if err := logIn(kept); err != nil {
		t.Fatal(err)
	}
	p.Rotate(t)
	clk.pass(11 * time.Minute)
	if err := logIn(kept); !errors.Is(err, login.ErrDenied) {
		t.Errorf("a removed key: %v, want it denied", err)
	}
}

func TestUnknownKeyStorm(t *testing.T) {
	p, clk := testidp.New(t), newClock()
	m := jwtMethod(rbac.AuthMethodConfig{JWKSURL: p.URL + "/keys", JWKSCACert: p.CA})
	desk := login.New(login.Config{Now: clk.now})
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 200 {
		token := testidp.Sign(jose.RS256, key, map[string]any{"kid": fmt.Sprint("made-up-", i)}, map[string]any{"exp": clk.at.Unix() + 60})
		wg.Go(func() {
			if _, err := desk.Login(t.Context(), m, token); err == nil {
				t.Error("an invented key was accepted")
			}
		})
	}
	wg.Wait()
	if n := p.Fetches(); n != 1 {
		t.Errorf("%d fetches for 200 unknown keys, want 1", n)
	}
	clk.pass(11 * time.Second)
	if _, err := desk.Login(t.Context(), m, p.Token(map[string]any{"exp": clk.now().Unix() + 60})); err != nil {
		t.Errorf("a valid login after many invalid ones: %v", err)
	}
}

func TestProviderDown(t *testing.T) {
	p, clk := testidp.New(t), newClock()
	m := jwtMethod(rbac.AuthMethodConfig{JWKSURL: p.URL + "/keys", JWKSCACert: p.CA})
	desk := login.New(login.Config{Now: clk.now})
	token := p.Token(map[string]any{"iat": clk.at.Unix(), "exp": clk.at.Add(24 * time.Hour).Unix()})
	if _, err := desk.Login(t.Context(), m, token); err != nil {
		t.Fatal(err)
	}
	p.Keys = func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "canary-of-the-answer", http.StatusBadGateway)
	}
	clk.pass(20 * time.Minute)
	if _, err := desk.Login(t.Context(), m, token); err != nil {
		t.Errorf("keys fetched 20 minutes ago: %v, want them valid while the provider is down", err)
	}
	clk.pass(time.Hour)
	_, err := desk.Login(t.Context(), m, token)
	if !errors.Is(err, login.ErrProvider) || strings.Contains(err.Error(), "canary") {
		t.Errorf("expired keys: %v, want an error of the provider without its answer", err)
	}
}

func TestBadProviders(t *testing.T) {
	clk := newClock()
	huge := func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"keys":[],"pad":"` + strings.Repeat("a", 2<<20) + `"}`))
	}
	for name, tt := range map[string]struct {
		keys http.HandlerFunc
		ca   bool
	}{
		"unknown CA": {},
		"endless":    {keys: huge, ca: true},
		"not JSON":   {keys: func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }, ca: true},
		"another host": {keys: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://localhost:1/keys", http.StatusFound)
		}, ca: true},
		"plain HTTP": {keys: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+r.Host+"/keys", http.StatusFound)
		}, ca: true},
		"redirect loop": {keys: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) }, ca: true},
		"symmetric key only": {keys: func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`))
		}, ca: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := testidp.New(t)
			p.Keys = tt.keys
			m := jwtMethod(rbac.AuthMethodConfig{JWKSURL: p.URL + "/keys"})
			if tt.ca {
				m.Config.JWKSCACert = p.CA
			}
			if _, err := login.New(login.Config{Now: clk.now}).Login(t.Context(), m,
				p.Token(map[string]any{"exp": clk.at.Unix() + 60})); err == nil {
				t.Error("a token was accepted")
			}
			if n := p.Fetches(); n > 5 {
				t.Errorf("%d fetches", n)
			}
		})
	}
}

func TestClaimMappings(t *testing.T) {
	clk := newClock()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	m := jwtMethod(rbac.AuthMethodConfig{JWTValidationPubKeys: []string{pemOf(t, key.Public())},
		ClaimMappings: map[string]string{"sub": "who", "n": "n", "big": "big", "yes": "yes", "/a/b~1c/1": "deep", "/a/none": "none",
			"null": "null", "https://x/y": "url"},
		ListClaimMappings: map[string]string{"groups": "groups", "one": "one", "empty": "empty", "/a/list": "mixed", "missing": "missing"}})
	claims := map[string]any{"exp": clk.at.Unix() + 60, "sub": "x", "n": 1.5, "big": uint64(18446744073709551615), "yes": true, "null": nil,
		"https://x/y": "z",
		"groups":      []string{"a", "b"}, "one": "single", "empty": []string{},
		"a": map[string]any{"b/c": []any{"zero", "one"}, "list": []any{"t", 7, false}}}
	got, err := login.New(login.Config{Now: clk.now}).Login(t.Context(), m, testidp.Sign(jose.RS256, key, nil, claims))
	if err != nil {
		t.Fatal(err)
	}
	want := "map[big:18446744073709551615 deep:one n:1.5 url:z who:x yes:true] map[empty:[] groups:[a b] mixed:[t 7 false] one:[single]]"
	if text := fmt.Sprint(got.Values, got.Lists); text != want {
		t.Errorf("claims = %s, want %s", text, want)
	}
	for _, bad := range []any{map[string]any{"a": 1}, []any{[]any{"x"}}, []any{nil}} {
		if _, err := login.New(login.Config{Now: clk.now}).Login(t.Context(), m,
			testidp.Sign(jose.RS256, key, nil, with(claims, "groups", bad))); !errors.Is(err, login.ErrDenied) {
			t.Errorf("groups = %v: %v, want it denied", bad, err)
		}
	}
}
