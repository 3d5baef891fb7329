package bundle

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	nomad "github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// capturingVault returns a capture of Vault alone, and what it prints.
func capturingVault(t *testing.T, v vaultFlags) (*capture, *strings.Builder) {
	t.Helper()
	c, err := v.connection()
	if err != nil || c == nil {
		t.Fatalf("connection() = %v, %v", c, err)
	}
	d, err := newDir(t.TempDir(), "b", newScrubber(&nomad.Config{}, v.secrets()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	var errs strings.Builder
	return &capture{settings: &settings{}, vault: c, dir: d, env: &term.Env{Out: &errs, Err: &errs}, denied: map[string]bool{}}, &errs
}

// TestVault checks the file of a Vault that is unsealed, sealed, and down. The stand-in refuses a token and a namespace.
func TestVault(t *testing.T) {
	v := testvault.Start(t, testvault.Config{})
	t.Setenv("VAULT_TOKEN", "canary-of-the-environment")
	t.Setenv("VAULT_NAMESPACE", "canary-namespace")
	p, errs := capturingVault(t, vaultFlags{Address: v.Addr(), Token: "canary-of-a-flag"})
	p.readVault(t.Context(), 0)
	v.Seal()
	p.readVault(t.Context(), 1)
	for file, sealed := range map[string]bool{"nomad/0000/vault-sys-health.json": false, "nomad/0001/vault-sys-health.json": true} {
		var got vaultHealth
		if err := json.Unmarshal([]byte(readFile(t, p, file)), &got); err != nil || got.Sealed != sealed || !got.Initialized || got.Version != "1.21.1" || got.ClusterName == "" {
			t.Errorf("%s: %+v, %v", file, got, err)
		}
	}
	if len(p.failed)+len(p.denied) > 0 || errs.Len() > 0 {
		t.Errorf("failed %q, denied %v: %s", p.failed, p.denied, errs)
	}
	if out := p.dir.scrub.text("log: canary-of-a-flag and canary-of-the-environment"); strings.Contains(out, "canary") {
		t.Errorf("a log keeps a token of the caller: %s", out)
	}
	if err := v.Set(testvault.Mode{Refuse: true}); err != nil {
		t.Fatal(err)
	}
	if p.readVault(t.Context(), 2); len(p.failed) != 1 || !strings.Contains(p.failed[0], "connection refused") {
		t.Errorf("no Vault: failed %q", p.failed)
	}
}

// TestVault_Hostile checks that only known fields are in a bundle, and that an error has no text of an answer.
func TestVault_Hostile(t *testing.T) {
	answer, status := `{"initialized": true, "version": "1.21.1", "token": "canary", "new": {"any": "canary"}}`, http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Vault-Token") != "" || r.Header.Get("X-Vault-Namespace") != "" {
			t.Errorf("headers %v", r.Header)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer)) // the client reports a failure
	}))
	defer s.Close()
	p, errs := capturingVault(t, vaultFlags{Address: s.URL, Token: "t0ken"})
	p.readVault(t.Context(), 0)
	if text := readFile(t, p, "nomad/0000/vault-sys-health.json"); strings.Contains(text, "canary") || !strings.Contains(text, `"version": "1.21.1"`) {
		t.Errorf("file: %s", text)
	}
	answer, status = `{"errors": ["canary"]}`, http.StatusForbidden
	p.readVault(t.Context(), 1)
	answer, status = `canary`, http.StatusTeapot
	p.readVault(t.Context(), 2)
	answer, status = `canary`, http.StatusOK
	p.readVault(t.Context(), 3)
	if !p.denied["nomad/0001/vault-sys-health.json"] || len(p.failed) != 2 || strings.Contains(errs.String(), "canary") || strings.Contains(strings.Join(p.failed, ""), "canary") {
		t.Errorf("failed %q, denied %v: %s", p.failed, p.denied, errs)
	}
}

func readFile(t *testing.T, p *capture, name string) string {
	t.Helper()
	text := textOfPath(t, p)[name]
	if text == "" {
		t.Fatalf("no file %s", name)
	}
	return text
}

// TestVault_Flags checks that no flag for Vault reaches the index with a secret, and when there is a capture.
func TestVault_Flags(t *testing.T) {
	f := Commands()[0].FlagSet()
	for _, name := range []string{"vault-token", "vault-address", "vault-client-key"} {
		if err := f.Set(name, "canary"); err != nil {
			t.Fatal(err)
		}
	}
	for name, v := range setFlags(f) {
		if strings.Contains(v, "canary") {
			t.Errorf("-%s is in the index: %s", name, v)
		}
	}
	t.Setenv("VAULT_ADDR", "")
	t.Setenv("VAULT_TOKEN", "canary-of-the-environment")
	var v vaultFlags
	if c, err := v.connection(); c != nil || err != nil {
		t.Errorf("connection() = %v, %v without an address", c, err)
	}
	if !slices.Contains(v.secrets(), "canary-of-the-environment") {
		t.Error("the token of the environment is not a secret of the caller")
	}
	t.Setenv("VAULT_ADDR", "http://127.0.0.1:1")
	if c, err := v.connection(); c == nil || err != nil {
		t.Errorf("connection() = %v, %v with the address of the environment", c, err)
	}
}
