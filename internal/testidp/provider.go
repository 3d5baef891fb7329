// Package testidp is an OpenID provider for tests: discovery, keys, login, exchange of codes and user
// info, over TLS with its own CA. It follows the specification unless a test changes its answers.
// Codes are valid once, and verifiers, secrets and redirects are checked.
//
// A browser that opens its login page is logged in at once as User. One server per Provider runs until
// the test ends.
package testidp

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Provider is a running provider. Set its exported fields before the first request that uses them.
type Provider struct {
	// URL is its issuer; CA is the PEM certificate of its authority.
	URL, CA string
	// ClientID and Secret are those of its only client. Without a secret the client is a public
	// one.
	ClientID, Secret string
	// User are the claims of the user; UserInfo are those of the user info endpoint, nil for none.
	User, UserInfo map[string]any
	// Edit changes the claims of an ID token before it is signed.
	Edit func(claims map[string]any)
	// Sign makes the token from claims; nil signs correctly.
	Sign func(claims map[string]any) string
	// CheckAssertion reports whether a client assertion is valid; nil accepts none.
	CheckAssertion func(assertion string) error
	// Discovery changes the discovery document.
	Discovery func(doc map[string]any)
	// Keys replaces the answer of the key set endpoint.
	Keys http.HandlerFunc
	// Now is the clock; time.Now when nil.
	Now func() time.Time

	mu      sync.Mutex
	key     *rsa.PrivateKey
	kid     string
	codes   map[string]url.Values // queries of the login page, by code
	fetches int
}

// New starts a provider.
func New(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{ClientID: "open-nomad", Secret: "a-secret-of-the-client-that-is-long", codes: map[string]url.Values{},
		User: map[string]any{"sub": "alice"}}
	p.Rotate(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keySet)
	mux.HandleFunc("GET /login", p.login)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /user", p.userInfo)
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	p.URL = s.URL
	p.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return p
}

// Rotate replaces the signing key, which is the only published one.
func (p *Provider) Rotate(t testing.TB) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.kid = key, rand.Text()
}

// Key returns the signing key and its ID.
func (p *Provider) Key() (*rsa.PrivateKey, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.key, p.kid
}

// Fetches returns the number of requests for the key set.
func (p *Provider) Fetches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetches
}

// Token signs claims as the provider would, with RS256.
func (p *Provider) Token(claims map[string]any) string {
	key, kid := p.Key()
	return Sign(jose.RS256, key, map[string]any{"kid": kid}, claims)
}

// Sign signs anything with any key. It panics if the key does not fit the algorithm.
func Sign(alg jose.SignatureAlgorithm, key any, header, claims map[string]any) string {
	opts := (&jose.SignerOptions{}).WithType("JWT")
	for name, v := range header {
		opts.WithHeader(jose.HeaderKey(name), v)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, opts)
	if err != nil {
		panic(fmt.Sprintf("testidp: %v", err))
	}
	text, err := json.Marshal(claims)
	if err != nil {
		panic(fmt.Sprintf("testidp: %v", err))
	}
	signed, err := signer.Sign(text)
	if err != nil {
		panic(fmt.Sprintf("testidp: %v", err))
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		panic(fmt.Sprintf("testidp: %v", err))
	}
	return raw
}

func (p *Provider) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	doc := map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/login", "token_endpoint": p.URL + "/token",
		"jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/user", "id_token_signing_alg_values_supported": []string{"RS256"},
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}}
	if p.Discovery != nil {
		p.Discovery(doc)
	}
	answer(w, doc)
}

func (p *Provider) keySet(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.fetches++
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: p.kid, Algorithm: "RS256", Use: "sig"}}}
	p.mu.Unlock()
	if p.Keys != nil {
		p.Keys(w, r)
		return
	}
	answer(w, set)
}

// login logs the browser in and redirects it back.
func (p *Provider) login(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if q.Get("client_id") != p.ClientID || q.Get("response_type") != "code" || err != nil || q.Get("nonce") == "" {
		http.Error(w, "not a login", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = q
	p.mu.Unlock()
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// token returns tokens for a code, once.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, "bad form", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	asked, ok := p.codes[r.Form.Get("code")]
	delete(p.codes, r.Form.Get("code"))
	p.mu.Unlock()
	fault := ""
	switch {
	case !p.isClient(r):
		fault = "invalid_client"
	case !ok || r.Form.Get("grant_type") != "authorization_code" || r.Form.Get("redirect_uri") != asked.Get("redirect_uri"):
		fault = "invalid_grant"
	case asked.Get("code_challenge") != "" && challenge(r.Form.Get("code_verifier")) != asked.Get("code_challenge"):
		fault = "invalid_grant"
	}
	if fault != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(map[string]string{"error": fault}) // fails only if the client is gone
		return
	}
	answer(w, map[string]any{"access_token": "access-of-" + p.ClientID, "token_type": "Bearer", "expires_in": 60,
		"id_token": p.idToken(asked)})
}

func (p *Provider) idToken(asked url.Values) string {
	now := p.now()
	claims := map[string]any{"iss": p.URL, "aud": p.ClientID, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		"nonce": asked.Get("nonce")}
	maps.Copy(claims, p.User)
	if p.Edit != nil {
		p.Edit(claims)
	}
	if p.Sign != nil {
		return p.Sign(claims)
	}
	return p.Token(claims)
}

// isClient checks the secret or the assertion of a client.
func (p *Provider) isClient(r *http.Request) bool {
	if a := r.Form.Get("client_assertion"); a != "" {
		return p.CheckAssertion != nil && p.CheckAssertion(a) == nil
	}
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.Form.Get("client_id"), r.Form.Get("client_secret")
	}
	return id == p.ClientID && secret == p.Secret && p.CheckAssertion == nil
}

func (p *Provider) userInfo(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer access-of-"+p.ClientID {
		http.Error(w, "who?", http.StatusUnauthorized)
		return
	}
	info := map[string]any{"sub": p.User["sub"]}
	maps.Copy(info, p.UserInfo)
	answer(w, info)
}

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) // fails only if the client is gone
}
