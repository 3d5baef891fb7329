package vault_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testpki"
	"github.com/open-nomad/open-nomad/internal/testvault"
	"github.com/open-nomad/open-nomad/internal/vault"
)

// cluster returns a cluster at an address.
func cluster(t *testing.T, address string) *vault.Cluster {
	t.Helper()
	c, err := vault.New(vault.Settings{Name: vault.DefaultCluster, Address: address})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sealed asks for the seal of a cluster.
func sealed(t *testing.T, c *vault.Cluster) error {
	t.Helper()
	_, err := c.Client("", "").Sys().SealStatusWithContext(t.Context())
	return err
}

// serving answers every request, and records the headers.
func serving(headers *[]http.Header) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*headers = append(*headers, r.Header)
		io.WriteString(w, `{"data": {}, "version": "1"}`)
	})
}

// TestClient checks that clients have the token and the namespace of their caller, and do not share them.
func TestClient(t *testing.T) {
	v := testvault.Start(t, testvault.Config{Namespace: "team"})
	c := cluster(t, v.Addr())
	first, second := c.Client(v.Root(), "team"), c.Client("", "")
	if _, err := first.Auth().Token().LookupSelf(); err != nil {
		t.Error(err)
	}
	if second.Token() != "" || second.Namespace() != "" {
		t.Errorf("token %q, namespace %q", second.Token(), second.Namespace())
	}
	if _, err := second.Sys().SealStatus(); err != nil {
		t.Error(err)
	}
}

// TestReplace checks that the next request uses the new address and reads the TLS files again, and that wrong settings
// leave the old ones.
func TestReplace(t *testing.T) {
	var plain, secure []http.Header
	first := httptest.NewServer(serving(&plain))
	defer first.Close()
	right, wrong := testpki.New(t).Agent("localhost"), testpki.New(t).Agent("localhost")
	pair, err := tls.LoadX509KeyPair(right.Cert, right.Key)
	if err != nil {
		t.Fatal(err)
	}
	second := httptest.NewUnstartedServer(serving(&secure))
	second.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	second.StartTLS()
	defer second.Close()
	c := cluster(t, first.URL)
	if err := sealed(t, c); err != nil || len(plain) != 1 {
		t.Errorf("first: %v, %d requests", err, len(plain))
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	s := vault.Settings{Name: vault.DefaultCluster, Address: second.URL, TLS: vault.TLS{CAFile: ca, ServerName: "localhost"}}
	use := func(from string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ca, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Replace(s); err != nil {
			t.Fatal(err)
		}
	}
	use(wrong.CA)
	if err := sealed(t, c); err == nil || !strings.Contains(vault.Redact(err).Error(), "certificate") {
		t.Errorf("with another CA: %v", err)
	}
	use(right.CA)
	if err := sealed(t, c); err != nil || len(secure) != 1 {
		t.Errorf("with the CA in the same file: %v, %d requests", err, len(secure))
	}
	for name, set := range map[string]vault.TLS{"CA": {CAFile: ca + ".missing"}, "CA path": {CAPath: ca + ".missing"},
		"certificate": {CertFile: ca + ".missing", KeyFile: right.Key}, "key": {CertFile: right.Cert}} {
		bad := s
		bad.TLS = set
		if err := c.Replace(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := sealed(t, c); err != nil || len(secure) != 2 {
		t.Errorf("after wrong settings: %v, %d requests", err, len(secure))
	}
}

// TestEnvironment checks that nothing of the agent's environment and home directory reaches a request.
func TestEnvironment(t *testing.T) {
	var got []http.Header
	s := httptest.NewServer(serving(&got))
	defer s.Close()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".vault-token"), []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"HOME": home, "VAULT_ADDR": "http://127.0.0.1:1", "VAULT_AGENT_ADDR": "http://127.0.0.1:1",
		"VAULT_TOKEN": "canary", "VAULT_NAMESPACE": "canary", "VAULT_HEADERS": `{"X-Other": "canary"}`, "VAULT_PROXY_ADDR": "http://127.0.0.1:1",
		"VAULT_HTTP_PROXY": "http://127.0.0.1:1", "VAULT_MAX_RETRIES": "0", "VAULT_RATE_LIMIT": "0.0001:1", "VAULT_CLIENT_TIMEOUT": "1ns",
		"VAULT_SKIP_VERIFY": "true", "VAULT_TLS_SERVER_NAME": "canary", "VAULT_SRV_LOOKUP": "true", "VAULT_DISABLE_REDIRECTS": "false", "VAULT_WRAP_TTL": "canary"} {
		t.Setenv(name, value)
	}
	for _, malformed := range []string{"", "VAULT_MAX_RETRIES", "VAULT_RATE_LIMIT", "VAULT_CLIENT_TIMEOUT", "VAULT_SKIP_VERIFY", "VAULT_SRV_LOOKUP",
		"VAULT_DISABLE_REDIRECTS", "VAULT_HEADERS", "VAULT_PROXY_ADDR", "VAULT_CACERT", "VAULT_CAPATH", "VAULT_CACERT_BYTES", "VAULT_CLIENT_CERT"} {
		t.Run(malformed, func(t *testing.T) {
			if malformed != "" {
				t.Setenv(malformed, "canary\x7f")
			}
			own(t, cluster(t, s.URL), &got)
			if kept := os.Getenv(malformed); malformed != "" && kept != "canary\x7f" {
				t.Errorf("the environment of the agent has changed: %q", kept)
			}
		})
	}
}

// own sends requests with a token of its own, and without one, and checks that they have nothing of the environment.
func own(t *testing.T, c *vault.Cluster, got *[]http.Header) {
	t.Helper()
	for _, token := range []string{"", "own"} {
		if _, err := c.Client(token, "").Logical().ReadWithContext(t.Context(), "secret/x"); err != nil {
			t.Error(vault.Redact(err))
			return
		}
		last := (*got)[len(*got)-1]
		for name, values := range last {
			if strings.Contains(strings.Join(values, ","), "canary") {
				t.Errorf("header %s: %q", name, values)
			}
		}
		if sent := last.Get("X-Vault-Token"); sent != token {
			t.Errorf("token %q, want %q", sent, token)
		}
	}
}

// TestCheckAddress checks which addresses are refused, without their text.
func TestCheckAddress(t *testing.T) {
	for address, ok := range map[string]bool{"https://vault.test:8200": true, "http://[::1]:8200": true, "https://vault.test/base": true,
		"": false, "vault.test:8200": false, "unix:///run/vault.sock": false, "https://": false, "https://canary:canary@vault.test": false,
		"https://vault.test?canary": false, "http://canary\x7f": false} {
		if err := vault.CheckAddress(address); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("CheckAddress(%q) = %v", address, err)
		}
	}
}
