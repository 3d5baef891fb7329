package login_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/internal/testidp"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// signer signs with one key, like the keyring.
type signer struct{ key *rsa.PrivateKey }

func (s signer) ClientAssertion(_ context.Context, a login.Assertion) (string, error) {
	header := map[string]any{"kid": "of-the-ring"}
	for k, v := range a.Headers {
		header[k] = v
	}
	return testidp.Sign(jose.SignatureAlgorithm(a.Alg), s.key, header, a.Claims()), nil
}

func TestClientAssertions(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "c"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := "a client secret of 32 characters!"
	for name, tt := range map[string]struct {
		a      rbac.OIDCClientAssertion
		verify any
		header string // the header that identifies the key
	}{
		"nomad":  {rbac.OIDCClientAssertion{KeySource: "nomad", ExtraHeaders: map[string]string{"x": "y"}}, key.Public(), "kid"},
		"secret": {rbac.OIDCClientAssertion{KeySource: "client_secret", ClientSecret: secret}, []byte(secret), ""},
		"key and ID": {rbac.OIDCClientAssertion{KeySource: "private_key", PrivateKey: &rbac.OIDCClientAssertionKey{PemKey: text, KeyID: "k"}},
			key.Public(), "kid"},
		"certificate": {rbac.OIDCClientAssertion{KeySource: "private_key", KeyAlgorithm: "PS256",
			PrivateKey: &rbac.OIDCClientAssertionKey{PemKeyFile: file, PemCert: cert, KeyIDHeader: "x5t"}}, key.Public(), "x5t"},
		"thumbprint": {rbac.OIDCClientAssertion{KeySource: "private_key", Audience: []string{"elsewhere"},
			PrivateKey: &rbac.OIDCClientAssertionKey{PemKey: text, PemCert: cert}}, key.Public(), "x5t#S256"},
	} {
		t.Run(name, func(t *testing.T) {
			p := testidp.New(t)
			m := oidcMethod(p)
			m.Config.OIDCClientSecret, m.Config.OIDCClientAssertion = "", &tt.a
			if err := login.CheckMethod(m, 0, time.Hour); err != nil {
				t.Fatal(err)
			}
			p.CheckAssertion = func(raw string) error { return checkAssertion(raw, tt.verify, tt.header, p, tt.a.Audience) }
			desk := login.New(login.Config{Now: time.Now, Signer: signer{key}})
			at, err := desk.Begin(t.Context(), m, redirect, nonce)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := desk.End(t.Context(), m, returned(browse(t, p, at))); err != nil {
				t.Error(err)
			}
		})
	}
}

// checkAssertion verifies an assertion like a provider.
func checkAssertion(raw string, key any, header string, p *testidp.Provider, audience []string) error {
	parsed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.HS256})
	if err != nil {
		return err
	}
	payload, err := parsed.Verify(key)
	if err != nil {
		return err
	}
	var c struct {
		Iss, Sub, Jti string
		Aud           []string
		Exp, Iat      int64
	}
	if err := json.Unmarshal(payload, &c); err != nil {
		return err
	}
	if len(audience) == 0 {
		audience = []string{p.URL}
	}
	h := parsed.Signatures[0].Header
	named := h.KeyID != ""
	if header != "kid" && header != "" {
		_, named = h.ExtraHeaders[jose.HeaderKey(header)]
	}
	if c.Iss != p.ClientID || c.Sub != p.ClientID || c.Jti == "" || fmt.Sprint(c.Aud) != fmt.Sprint(audience) || c.Exp-c.Iat > 300 ||
		named != (header != "") {
		return errors.New("not an assertion")
	}
	return nil
}

// Errors contain nothing from a file of the server.
func TestErrorsHideKeyFile(t *testing.T) {
	p := testidp.New(t)
	dir := t.TempDir()
	for name, content := range map[string]string{"text": "canary-of-a-file",
		"pem": "-----BEGIN X-----\nY2FuYXJ5LW9mLWEtZmlsZQ==\n-----END X-----\n"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		m := oidcMethod(p)
		m.Config.OIDCClientAssertion = &rbac.OIDCClientAssertion{KeySource: "private_key",
			PrivateKey: &rbac.OIDCClientAssertionKey{PemKeyFile: file, KeyID: "k"}}
		desk := login.New(login.Config{Now: time.Now})
		at, err := desk.Begin(t.Context(), m, redirect, nonce)
		if err != nil {
			t.Fatal(err)
		}
		_, err = desk.End(t.Context(), m, returned(browse(t, p, at)))
		if err == nil || fmt.Sprint(err) != "sign a client assertion: the private key is "+
			map[string]string{"text": "not in PEM", "pem": "neither PKCS #1 nor PKCS #8"}[name] {
			t.Errorf("End() = %v", err)
		}
	}
}
