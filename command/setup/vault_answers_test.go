package setup

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/internal/testvault"
)

// TestVault_OtherType checks that nothing is created if the path of the auth method has another one, which is kept.
func TestVault_OtherType(t *testing.T) {
	v, flags, _ := vaultStarted(t, testvault.Config{})
	proxy := before(t, v, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && r.URL.Path == "/v1/sys/auth/jwt-nomad" {
			_, _ = w.Write([]byte(`{"data": {"type": "userpass\u001b", "accessor": "auth_userpass_1"}}`)) // the client reports a failure
			return true
		}
		return false
	})
	t.Setenv(api.EnvVaultAddress, proxy)
	code, out, errs := vaultRun(flags...)
	want := `Failed to read JWT auth method "jwt-nomad": it has the type userpass\x1b, not jwt: disable it, or move it to another path` + "\n"
	if code != 1 || errs != want || len(marks(out)) > 0 {
		t.Errorf("exit code %d, %q, want %q\n%s", code, errs, want, out)
	}
	code, out, errs = vaultRun(append(flags, "-destroy")...)
	if code != 0 || !strings.HasPrefix(errs, `Kept JWT auth method "jwt-nomad": this command did not create it`) || len(marks(out)) > 0 {
		t.Errorf("-destroy: exit code %d, %q\n%s", code, errs, out)
	}
}

// TestVault_NoAccessor checks the error if Vault does not return the auth method that it has just created.
func TestVault_NoAccessor(t *testing.T) {
	v, flags, _ := vaultStarted(t, testvault.Config{})
	t.Setenv(api.EnvVaultAddress, before(t, v, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && r.URL.Path == "/v1/sys/auth/jwt-nomad" {
			http.Error(w, `{"errors": []}`, http.StatusNotFound)
			return true
		}
		return false
	}))
	code, out, errs := vaultRun(flags...)
	want := `Failed to create JWT auth method "jwt-nomad": Vault returns no accessor for it: run the command again` + "\n"
	if code != 1 || errs != want || len(marks(out)) > 0 {
		t.Errorf("exit code %d, %q, want %q\n%s", code, errs, want, out)
	}
}

// TestVault_DiffersOnFailure checks that differences are printed if a later object cannot be created.
func TestVault_DiffersOnFailure(t *testing.T) {
	v, flags, _ := vaultStarted(t, testvault.Config{})
	if code, _, errs := vaultRun(flags...); code != 0 {
		t.Fatal(errs)
	}
	role := vaultAdmin(t, v, v.Root(), "").Logical()
	if _, err := role.Delete("auth/jwt-nomad/role/nomad-workloads"); err != nil {
		t.Fatal(err)
	}
	t.Setenv(api.EnvVaultAddress, before(t, v, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && r.URL.Path == "/v1/auth/jwt-nomad/role/nomad-workloads" {
			http.Error(w, `{"errors": ["no"]}`, http.StatusBadRequest)
			return true
		}
		return false
	}))
	code, _, errs := vaultRun(append(flags, flags[1]+"?other")...)
	warning, failure := strings.Index(errs, `Warning: the auth method "jwt-nomad" reads the keys from`), strings.Index(errs, `Failed to create role "nomad-workloads"`)
	if code != 1 || warning < 0 || failure < warning {
		t.Errorf("exit code %d, %q, want a warning, then the failure", code, errs)
	}
}

// before returns the address of a proxy of v. Requests for which answer returns true do not reach v.
func before(t *testing.T, v *testvault.Vault, answer func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	to, err := url.Parse(v.Addr())
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(to)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answer(w, r) {
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}
