package login_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

func privatePEM(t testing.TB, bits int) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

func goodOIDC() *rbac.AuthMethod {
	return &rbac.AuthMethod{Name: "people", Type: "OIDC", TokenLocality: "global", MaxTokenTTL: time.Hour,
		Config: &rbac.AuthMethodConfig{
			OIDCDiscoveryURL: "https://id.example.com", OIDCClientID: "c", OIDCClientSecret: "s", AllowedRedirectURIs: []string{redirect}}}
}

func TestCheckMethod(t *testing.T) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	goodKey, private := pemOf(t, public), privatePEM(t, 2048)
	goodJWT := func() *rbac.AuthMethod {
		return jwtMethod(rbac.AuthMethodConfig{JWTValidationPubKeys: []string{goodKey}})
	}
	assert := func(a rbac.OIDCClientAssertion) func(*rbac.AuthMethod) {
		return func(m *rbac.AuthMethod) { m.Config.OIDCClientAssertion = &a }
	}
	for name, edit := range map[string]func(*rbac.AuthMethod){
		"":          func(*rbac.AuthMethod) {},
		"nomad key": assert(rbac.OIDCClientAssertion{KeySource: "nomad"}),
		"own key": assert(rbac.OIDCClientAssertion{KeySource: "private_key",
			PrivateKey: &rbac.OIDCClientAssertionKey{PemKey: private, KeyID: "k"}}),
		"key file": assert(rbac.OIDCClientAssertion{KeySource: "private_key",
			PrivateKey: &rbac.OIDCClientAssertionKey{PemKeyFile: "/etc/k.pem", PemCertFile: "/etc/c.pem", KeyIDHeader: "x5t"}}),
		"secret signs": assert(rbac.OIDCClientAssertion{KeySource: "client_secret", ClientSecret: strings.Repeat("s", 32)}),
	} {
		for _, m := range []*rbac.AuthMethod{goodOIDC()} {
			edit(m)
			login.Complete(m)
			if err := login.CheckMethod(m, time.Minute, 24*time.Hour); err != nil {
				t.Errorf("good OIDC %s: %v", name, err)
			}
		}
	}
	if err := login.CheckMethod(goodJWT(), time.Minute, 24*time.Hour); err != nil {
		t.Errorf("good JWT: %v", err)
	}
	for name, edit := range map[string]func(m, o *rbac.AuthMethod){
		"name":             func(m, o *rbac.AuthMethod) { m.Name, o.Name = "a/b", "" },
		"type":             func(m, o *rbac.AuthMethod) { m.Type, o.Type = "SAML", "" },
		"locality":         func(m, o *rbac.AuthMethod) { m.TokenLocality, o.TokenLocality = "", "world" },
		"TTL too short":    func(m, o *rbac.AuthMethod) { m.MaxTokenTTL, o.MaxTokenTTL = time.Second, 0 },
		"TTL too long":     func(m, o *rbac.AuthMethod) { m.MaxTokenTTL, o.MaxTokenTTL = 25*time.Hour, -time.Hour },
		"no configuration": func(m, o *rbac.AuthMethod) { m.Config, o.Config = nil, nil },
		"name format":      func(m, o *rbac.AuthMethod) { m.TokenNameFormat, o.TokenNameFormat = "${x}", "${auth_method_type" },
		"algorithms": func(m, o *rbac.AuthMethod) {
			m.Config.SigningAlgs, o.Config.SigningAlgs = []string{"none"}, []string{"RS256", "HS256"}
		},
		"discovery CA": func(m, o *rbac.AuthMethod) {
			m.Config.DiscoveryCaPem, o.Config.DiscoveryCaPem = []string{"x"}, []string{"y"}
		},
		"JWKS CA": func(m, o *rbac.AuthMethod) { m.Config.JWKSCACert, o.Config.JWKSCACert = "x", "y" },
		"empty audience": func(m, o *rbac.AuthMethod) {
			m.Config.BoundAudiences, o.Config.BoundIssuer = []string{""}, []string{""}
		},
		"mapping": func(m, o *rbac.AuthMethod) {
			m.Config.ClaimMappings, o.Config.ListClaimMappings = map[string]string{"a": "x", "b": "x"}, map[string]string{"a": "${}"}
		},
		"sources": func(m, o *rbac.AuthMethod) {
			m.Config.JWKSURL, o.Config.JWKSURL = "https://x/keys", "https://x/keys"
		},
		"no source": func(m, o *rbac.AuthMethod) { m.Config.JWTValidationPubKeys, o.Config.OIDCDiscoveryURL = nil, "" },
		"private key": func(m, o *rbac.AuthMethod) {
			m.Config.JWTValidationPubKeys, o.Config.JWTValidationPubKeys = []string{private}, []string{goodKey}
		},
		"weak key": func(m, o *rbac.AuthMethod) {
			m.Config.JWTValidationPubKeys, o.Config.OIDCClientID = []string{weakPEM(t)}, ""
		},
		"plain HTTP": func(m, o *rbac.AuthMethod) {
			m.Config.JWTValidationPubKeys, m.Config.JWKSURL, o.Config.OIDCDiscoveryURL = nil, "http://id.example.com/keys", "http://id.example.com"
		},
		"odd URL": func(m, o *rbac.AuthMethod) {
			m.Config.JWTValidationPubKeys, m.Config.JWKSURL, o.Config.OIDCDiscoveryURL = nil, "file:///etc/passwd",
				"https://user:secret@id.example.com"
		},
	} {
		m, o := goodJWT(), goodOIDC()
		edit(m, o)
		for _, x := range []*rbac.AuthMethod{m, o} {
			err := login.CheckMethod(x, time.Minute, 24*time.Hour)
			if err == nil {
				t.Errorf("%s: CheckMethod() accepts the %s method", name, x.Type)
			}
			if err != nil && (strings.Contains(err.Error(), "MII") || strings.Contains(err.Error(), "secret@")) {
				t.Errorf("%s: the error shows a secret: %v", name, err)
			}
		}
	}
	for name, edit := range map[string]func(*rbac.AuthMethod){
		"redirect":          func(m *rbac.AuthMethod) { m.Config.AllowedRedirectURIs = []string{"javascript:alert(1)"} },
		"redirect fragment": func(m *rbac.AuthMethod) { m.Config.AllowedRedirectURIs = []string{"https://x/#y"} },
		"source":            assert(rbac.OIDCClientAssertion{KeySource: "magic"}),
		"no key":            assert(rbac.OIDCClientAssertion{KeySource: "private_key"}),
		"two keys": assert(rbac.OIDCClientAssertion{KeySource: "private_key",
			PrivateKey: &rbac.OIDCClientAssertionKey{PemKey: private, PemKeyFile: "/x", KeyID: "k"}}),
		"unnamed key": assert(rbac.OIDCClientAssertion{KeySource: "private_key", PrivateKey: &rbac.OIDCClientAssertionKey{PemKey: private}}),
		"relative file": assert(rbac.OIDCClientAssertion{KeySource: "private_key",
			PrivateKey: &rbac.OIDCClientAssertionKey{PemKeyFile: "k.pem", KeyID: "k"}}),
		"invalid key": assert(rbac.OIDCClientAssertion{KeySource: "private_key",
			PrivateKey: &rbac.OIDCClientAssertionKey{PemKey: "MIIcanary", KeyID: "k"}}),
		"short secret":    assert(rbac.OIDCClientAssertion{KeySource: "client_secret", ClientSecret: "short"}),
		"symmetric nomad": assert(rbac.OIDCClientAssertion{KeySource: "nomad", KeyAlgorithm: "HS256"}),
		"alg in a header": assert(rbac.OIDCClientAssertion{KeySource: "nomad", ExtraHeaders: map[string]string{"ALG": "none"}}),
		"key for nomad": assert(rbac.OIDCClientAssertion{KeySource: "nomad",
			PrivateKey: &rbac.OIDCClientAssertionKey{PemKey: private, KeyID: "k"}}),
	} {
		m := goodOIDC()
		edit(m)
		if err := login.CheckMethod(m, time.Minute, 24*time.Hour); err == nil || strings.Contains(err.Error(), "MII") {
			t.Errorf("%s: CheckMethod() = %v", name, err)
		}
	}
}

// Settings that upstream accepts but that are unwise are accepted with a warning.
func TestUnwiseMethods(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*rbac.AuthMethodConfig)
		want string
	}{
		"good": {func(*rbac.AuthMethodConfig) {}, ""},
		"no redirect URIs": {func(c *rbac.AuthMethodConfig) { c.AllowedRedirectURIs = nil },
			"AllowedRedirectURIs is empty: every login is refused"},
		"no proof": {func(c *rbac.AuthMethodConfig) { c.OIDCClientSecret = "" },
			"no client secret, client assertion or PKCE is configured: logins use PKCE"},
		"PKCE": {func(c *rbac.AuthMethodConfig) { c.OIDCClientSecret, c.OIDCEnablePKCE = "", true }, ""},
	} {
		m := goodOIDC()
		c.edit(m.Config)
		login.Complete(m)
		if err := login.CheckMethod(m, time.Minute, 24*time.Hour); err != nil {
			t.Errorf("%s: CheckMethod() = %v", name, err)
		}
		if got := strings.Join(login.Warnings(m), ", "); got != c.want {
			t.Errorf("%s: Warnings() = %q, want %q", name, got, c.want)
		}
	}
}

func weakPEM(t testing.TB) string {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf(t, key.Public())
}

func TestRedactAndMerge(t *testing.T) {
	old := goodOIDC()
	old.Config.OIDCClientAssertion = &rbac.OIDCClientAssertion{KeySource: "private_key", ClientSecret: "canary-1",
		PrivateKey: &rbac.OIDCClientAssertionKey{PemKey: "canary-2", KeyID: "k"}}
	old.Config.OIDCClientSecret = "canary-3"
	old.Config.OIDCScopes = []string{"groups"}
	shown := login.Redact(old)
	text, err := json.Marshal(shown)
	if err != nil || strings.Contains(string(text), "canary") || strings.Count(string(text), `"redacted"`) != 3 {
		t.Errorf("Redact() = %s, %v", text, err)
	}
	if old.Config.OIDCClientSecret != "canary-3" {
		t.Error("Redact() modifies its argument")
	}

	// A redacted method can be written back.
	if err := login.Merge(shown, old); err != nil || !reflect.DeepEqual(shown, old) {
		t.Errorf("Merge() of a redacted method = %v", err)
	}

	change := &rbac.AuthMethod{Name: "people", MaxTokenTTL: time.Minute,
		Config: &rbac.AuthMethodConfig{OIDCScopes: []string{}, BoundAudiences: []string{"x"}}}
	if err := login.Merge(change, old); err != nil {
		t.Fatal(err)
	}
	c := change.Config
	if change.Type != "OIDC" || change.MaxTokenTTL != time.Minute || c.OIDCClientSecret != "canary-3" ||
		c.OIDCDiscoveryURL != old.Config.OIDCDiscoveryURL ||
		len(c.OIDCScopes) != 0 || len(c.BoundAudiences) != 1 || c.OIDCClientAssertion.PrivateKey.PemKey != "canary-2" {
		t.Errorf("Merge() = %+v with %+v", *change, *c)
	}
	c.OIDCClientAssertion.PrivateKey.PemKey = "changed"
	if old.Config.OIDCClientAssertion.PrivateKey.PemKey != "canary-2" {
		t.Error("Merge() shares memory with state")
	}

	// A secret is not sent to another provider.
	moved := &rbac.AuthMethod{Name: "people", Config: &rbac.AuthMethodConfig{OIDCDiscoveryURL: "https://evil.example.com"}}
	if err := login.Merge(moved, old); err != nil || moved.Config.OIDCClientSecret != "" || moved.Config.OIDCClientAssertion != nil {
		t.Errorf("Merge() with another provider keeps secrets: %v", err)
	}
	moved.Config.OIDCClientSecret = login.Redacted
	if err := login.Merge(moved, old); err == nil {
		t.Error("Merge() stores the placeholder as a secret")
	}
	if err := login.Merge(&rbac.AuthMethod{Config: &rbac.AuthMethodConfig{OIDCClientSecret: login.Redacted}}, nil); err == nil {
		t.Error("Merge() stores the placeholder as a new secret")
	}
}
