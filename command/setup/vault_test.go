package setup

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// vaultStarted returns a stand-in of Vault that the environment names, with a token that has all rights, and the URL and the
// CA file of the keys of a cluster.
func vaultStarted(t *testing.T, cfg testvault.Config) (v *testvault.Vault, flags []string, sign func(map[string]any) string) {
	t.Helper()
	v = testvault.Start(t, cfg)
	for _, name := range os.Environ() {
		if name, _, _ = strings.Cut(name, "="); strings.HasPrefix(name, "VAULT_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv(api.EnvVaultAddress, v.Addr())
	t.Setenv(api.EnvVaultToken, v.Root())
	url, ca, raw := keyring(t)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte(ca), 0o600); err != nil {
		t.Fatal(err)
	}
	sign = func(claims map[string]any) string {
		all := map[string]any{"aud": vaultAudience, "nomad_task": "server", "sub": "global:default:web:g:server:vault_default"}
		maps.Copy(all, claims)
		return raw(jose.EdDSA, all)
	}
	return v, []string{"-y", "-jwks-url=" + url, "-jwks-ca-file=" + file}, sign
}

// vaultRun runs "setup vault" with flags, without a terminal.
func vaultRun(flags ...string) (code int, out, errs string) {
	var o, e strings.Builder
	code = vaultCommand().Adapt(strings.NewReader(""), &o, &e).Run(flags)
	return code, o.String(), e.String()
}

func vaultAdmin(t *testing.T, v *testvault.Vault, token, namespace string) *api.Client {
	t.Helper()
	cfg := api.DefaultConfig()
	cfg.Address, cfg.MaxRetries = v.Addr(), 0
	c, err := api.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.SetToken(token)
	c.SetNamespace(namespace)
	return c
}

// TestVault checks the calls, the output of a second run, and -destroy.
func TestVault(t *testing.T) {
	v, flags, _ := vaultStarted(t, testvault.Config{})
	created := []string{`[✔] Created JWT auth method "jwt-nomad".`, `[✔] Created policy "nomad-workloads".`, `[✔] Created role "nomad-workloads".`}
	exists := []string{`[✔] JWT auth method "jwt-nomad" already exists.`, `[✔] Policy "nomad-workloads" already exists.`, `[✔] Role "nomad-workloads" already exists.`}
	deleted := []string{`[✔] Deleted role "nomad-workloads".`, `[✔] Deleted policy "nomad-workloads".`, `[✔] Deleted JWT auth method "jwt-nomad".`}
	for _, run := range []struct {
		destroy bool
		lines   []string
	}{{false, created}, {false, exists}, {true, deleted}, {true, nil}, {false, created}} {
		all := flags
		if run.destroy {
			all = append(slices.Clone(flags), "-destroy")
		}
		code, out, errs := vaultRun(all...)
		if code != 0 || errs != "" || !slices.Equal(marks(out), run.lines) {
			t.Fatalf("%q: exit code %d, %q\n%s\nwant\n%s", all, code, errs, out, strings.Join(run.lines, "\n"))
		}
		if nothing := strings.Contains(out, "Nothing to delete."); nothing != (run.lines == nil) {
			t.Errorf("%q: %s", all, out)
		}
		if config := strings.Contains(out, "default_identity {"); config == run.destroy {
			t.Errorf("%q: %s", all, out)
		}
	}
	role, err := vaultAdmin(t, v, v.Root(), "").Logical().Read("auth/jwt-nomad/role/nomad-workloads")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(role.Data)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"role_type":"jwt"`, `"bound_audiences":["vault.io"]`, `"user_claim":"/sub"`, `"user_claim_json_pointer":true`,
		`"claim_mappings":{"nomad_job_id":"nomad_job_id","nomad_namespace":"nomad_namespace","nomad_task":"nomad_task"}`,
		`"token_type":"service"`, `"token_period":1800`, `"token_policies":["nomad-workloads"]`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the role has %s, want %s", text, want)
		}
	}
}

// vaultLogin returns a client with the token of a login.
func vaultLogin(t *testing.T, v *testvault.Vault, namespace, jwt string) *api.Client {
	t.Helper()
	c := vaultAdmin(t, v, "", namespace)
	c.ClearToken()
	s, err := c.Logical().Write("auth/jwt-nomad/login", map[string]any{"jwt": jwt, "role": ""})
	if err != nil {
		t.Fatal(err)
	}
	return vaultAdmin(t, v, s.Auth.ClientToken, namespace)
}

// TestVault_Login checks that a task can read the secrets of its job, and no others: not those of a job with the same ID in
// another namespace either, whose logins change the metadata of an alias that both would share.
func TestVault_Login(t *testing.T) {
	v, flags, sign := vaultStarted(t, testvault.Config{})
	if code, _, errs := vaultRun(flags...); code != 0 {
		t.Fatal(errs)
	}
	admin := vaultAdmin(t, v, v.Root(), "").KVv2("secret")
	for _, path := range []string{"default/web", "default/web/db", "default/api/db", "prod/web/db"} {
		if _, err := admin.Put(t.Context(), path, map[string]any{"at": path}); err != nil {
			t.Fatal(err)
		}
	}
	task := vaultLogin(t, v, "", sign(nil)).KVv2("secret")
	prod := vaultLogin(t, v, "", sign(map[string]any{"nomad_namespace": "prod", "sub": "global:prod:web:g:server:vault_default"})).KVv2("secret")
	v.Expect("permission denied")
	for _, c := range []struct {
		who  *api.KVv2
		path string
		may  bool
	}{{task, "default/web", true}, {task, "default/web/db", true}, {task, "default/api/db", false}, {task, "prod/web/db", false},
		{prod, "prod/web/db", true}, {prod, "default/web/db", false}} {
		got, err := c.who.Get(t.Context(), c.path)
		if may := err == nil && got.Data["at"] == c.path; may != c.may {
			t.Errorf("read %s: %v, want %t", c.path, err, c.may)
		}
	}
	if _, err := task.Put(t.Context(), "default/web/db", map[string]any{"a": "b"}); err == nil {
		t.Error("a task can write a secret")
	}
}

// TestVault_Namespace checks that the namespace is created and deleted, but not if something else is in it.
func TestVault_Namespace(t *testing.T) {
	for name, c := range map[string]struct {
		cfg testvault.Config
		env string
	}{
		"of the environment": {testvault.Config{Namespace: "team", Absent: true}, "team/"},
		"a child":            {testvault.Config{Namespace: "admin/team", Absent: true}, "admin/team"},
		"Enterprise":         {testvault.Config{Namespace: "nomad-workloads", Absent: true, Enterprise: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v, flags, sign := vaultStarted(t, c.cfg)
			t.Setenv(api.EnvVaultNamespace, c.env)
			code, out, errs := vaultRun(flags...)
			if code != 0 || errs != "" || len(marks(out)) != 4 || !strings.Contains(out, `namespace = "`+c.cfg.Namespace+`"`) {
				t.Fatalf("exit code %d, %q\n%s", code, errs, out)
			}
			if _, err := vaultLogin(t, v, c.cfg.Namespace, sign(nil)).Auth().Token().LookupSelf(); err != nil {
				t.Error(err)
			}
			sys := vaultAdmin(t, v, v.Root(), c.cfg.Namespace).Sys()
			if err := sys.Mount("secret", &api.MountInput{Type: "kv", Options: map[string]string{"version": "2"}}); err != nil {
				t.Fatal(err)
			}
			code, out, errs = vaultRun(append(flags, "-destroy")...)
			if want := `Kept namespace "` + c.cfg.Namespace + "\": it also has engine secret/\n"; code != 0 || errs != want || len(marks(out)) != 3 {
				t.Errorf("exit code %d, %q, want %q\n%s", code, errs, want, out)
			}
		})
	}
	v, flags, _ := vaultStarted(t, testvault.Config{Namespace: "team", Absent: true})
	t.Setenv(api.EnvVaultNamespace, "team")
	for _, more := range []string{"", "-destroy"} {
		if code, out, errs := vaultRun(append(flags, strings.Fields(more)...)...); code != 0 || errs != "" || len(marks(out)) != 4 {
			t.Errorf("%q: exit code %d, %q\n%s", more, code, errs, out)
		}
	}
	if n := v.Calls("DELETE /v1/sys/namespaces/team"); n != 1 {
		t.Errorf("the namespace was deleted %d times", n)
	}
}

// TestVault_Differs checks that objects of somebody else are reported, not changed, and not deleted.
func TestVault_Differs(t *testing.T) {
	v, flags, _ := vaultStarted(t, testvault.Config{})
	if code, _, errs := vaultRun(flags...); code != 0 {
		t.Fatal(errs)
	}
	admin := vaultAdmin(t, v, v.Root(), "")
	write := func(path string, data map[string]any) {
		t.Helper()
		if _, err := admin.Logical().Write(path, data); err != nil {
			t.Fatal(err)
		}
	}
	role := roleFields()
	role["user_claim"], role["token_policies"], role["token_period"] = "/nomad_job_id", []string{"other\x1b[31m"}, "1h"
	role["bound_claims"] = map[string]any{"nomad_namespace": "default"}
	write("auth/jwt-nomad/role/nomad-workloads", role)
	write("auth/jwt-nomad/role/mine", roleFields())
	write("sys/policies/acl/nomad-workloads", map[string]any{"policy": `path "kv/x" { capabilities = ["update", "read"] }`})
	code, out, errs := vaultRun(append(flags, "-jwks-url="+strings.TrimPrefix(flags[1], "-jwks-url=")+"?other")...)
	if code != 0 || len(marks(out)) != 3 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for _, want := range []string{
		`the auth method "jwt-nomad" reads the keys from https://127.0.0.1`,
		`the policy "nomad-workloads" lacks read on secret/data/<nomad_namespace>/<nomad_job_id>, read on secret/data/<nomad_namespace>/<nomad_job_id>/*, list on secret/metadata/*, list on secret/metadata/<nomad_namespace>/*.`,
		`the policy "nomad-workloads" also has read, update on kv/x.`,
		`the role "nomad-workloads" has token_period = 3600, a new one has 1800.`,
		`the role "nomad-workloads" has token_policies = ["other\u001b[31m"], a new one has ["nomad-workloads"].`,
		`the role "nomad-workloads" has bound_claims = {"nomad_namespace":"default"}, a new one has none.`,
		`the role "nomad-workloads" has the user claim /nomad_job_id, as Nomad creates it: jobs with the same ID in several namespaces share an entity`,
	} {
		if !strings.Contains(errs, "Warning: "+want) {
			t.Errorf("no warning %s in\n%s", want, errs)
		}
	}
	code, out, errs = vaultRun(append(flags, "-destroy")...)
	if want := []string{`[✔] Deleted role "nomad-workloads".`}; code != 0 || !slices.Equal(marks(out), want) {
		t.Errorf("-destroy: exit code %d\n%s", code, out)
	}
	if want := "Kept policy \"nomad-workloads\": this command did not create it. To delete it: vault policy delete nomad-workloads\n" +
		"Kept JWT auth method \"jwt-nomad\": it also has role mine\n"; errs != want {
		t.Errorf("-destroy: %q, want %q", errs, want)
	}
}

// TestVault_Foreign checks that an auth method of somebody else is completed if it has no configuration, and is kept.
func TestVault_Foreign(t *testing.T) {
	v, flags, _ := vaultStarted(t, testvault.Config{})
	if err := vaultAdmin(t, v, v.Root(), "").Sys().EnableAuthWithOptions("jwt-nomad", &api.EnableAuthOptions{Type: "jwt"}); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := vaultRun(flags...); code != 0 || errs != "" || marks(out)[0] != `[✔] Created JWT auth method "jwt-nomad".` {
		t.Errorf("exit code %d, %q\n%s", code, errs, out)
	}
	code, out, errs := vaultRun(append(flags, "-destroy")...)
	if code != 0 || len(marks(out)) != 2 || !strings.HasPrefix(errs, `Kept JWT auth method "jwt-nomad": this command did not create it.`) {
		t.Errorf("-destroy: exit code %d, %q\n%s", code, errs, out)
	}
	// The policy has the accessor of an auth method that is gone.
	if code, _, errs := vaultRun(flags...); code != 0 {
		t.Fatal(errs)
	}
	if err := vaultAdmin(t, v, v.Root(), "").Sys().DisableAuth("jwt-nomad"); err != nil {
		t.Fatal(err)
	}
	code, _, errs = vaultRun(flags...)
	if code != 0 || !strings.Contains(errs, "is of an auth method that does not exist any more") {
		t.Errorf("exit code %d, %q", code, errs)
	}
	code, _, errs = vaultRun(flags...)
	if code != 0 || !strings.Contains(errs, "is of another auth method: its paths do not have the accessor auth_jwt_") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// TestVault_Keys checks what is said if Vault cannot read the keys, and that the next run completes the objects.
func TestVault_Keys(t *testing.T) {
	v, flags, _ := vaultStarted(t, testvault.Config{})
	v.Expect("error checking jwks URL")
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	for url, want := range map[string]string{
		"http://127.0.0.1:1/keys":                      "the connection is refused: set -jwks-url to a URL that each server of Vault reaches, then run the command again",
		none.URL + "/keys":                             "the answer is an error: the path is /.well-known/jwks.json",
		strings.TrimPrefix(flags[1], "-jwks-url="):     "the certificate is not of a known CA: set -jwks-ca-file",
		"https" + strings.TrimPrefix(none.URL, "http"): "the agent does not use TLS: begin -jwks-url with http://",
	} {
		code, out, errs := vaultRun("-y", "-jwks-url="+url)
		if text := `Failed to create JWT auth method "jwt-nomad": Vault cannot read the keys at ` + url + ": " + want; code != 1 || !strings.HasPrefix(errs, text) || len(marks(out)) > 0 {
			t.Errorf("%s: exit code %d, %q, want %q", url, code, errs, text)
		}
	}
	if n := v.Calls("POST /v1/sys/auth/jwt-nomad"); n != 1 {
		t.Errorf("the auth method was enabled %d times", n)
	}
	if code, out, errs := vaultRun(flags...); code != 0 || errs != "" || len(marks(out)) != 3 {
		t.Errorf("exit code %d, %q\n%s", code, errs, out)
	}
}

// TestVault_Failures checks errors, their remedies, and that none contains a token.
func TestVault_Failures(t *testing.T) {
	v, flags, _ := vaultStarted(t, testvault.Config{})
	for name, c := range map[string]struct{ flags, want string }{
		"no terminal":  {"", "This command requires -y option when running in non-interactive mode"},
		"not a URL":    {"-y -jwks-url=nomad:4646", "-jwks-url must be a URL"},
		"no mount":     {"-y -kv-path=", "The -kv-path option must specify a non-empty mount path"},
		"a slash":      {"-y -kv-path=/", "The -kv-path option must specify a non-empty mount path"},
		"a quote":      {`-y -kv-path=a"b`, "-kv-path has a character"},
		"json":         {"-y -json", "The -json option can only be used with -check"},
		"t":            {"-y -t={{.}}", "The -t option can only be used with -check"},
		"verbose":      {"-y -verbose", "The -verbose option can only be used with -check"},
		"both":         {"-check -destroy", "-check and -destroy exclude each other"},
		"no CA":        {"-y -jwks-ca-file=nowhere.pem", "Error reading -jwks-ca-file"},
		"no TLS":       {"-y -jwks-ca-file=" + strings.TrimPrefix(flags[2], "-jwks-ca-file="), "requires a -jwks-url that begins with https"},
		"many options": {"-y a", "This command takes no arguments"},
	} {
		if code, out, errs := vaultRun(strings.Fields(c.flags)...); code != 1 || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%s: exit code %d, %q, want %q", name, code, errs, c.want)
		}
	}
	v.Expect("permission denied")
	t.Setenv(api.EnvVaultToken, "canary-0000")
	if code, out, errs := vaultRun(flags...); code != 1 || !strings.Contains(errs, "unexpected status 403: the token in VAULT_TOKEN has expired or lacks a right") || strings.Contains(out+errs, "canary") {
		t.Errorf("an unknown token: exit code %d, %q", code, errs)
	}
	t.Setenv(api.EnvVaultToken, "")
	if code, _, errs := vaultRun(flags...); code != 1 || !strings.Contains(errs, "unexpected status 403: set VAULT_TOKEN to a token") {
		t.Errorf("no token: exit code %d, %q", code, errs)
	}
	t.Setenv(api.EnvVaultToken, v.Root())
	t.Setenv(api.EnvVaultCACertBytes, "x")
	if code, _, errs := vaultRun(flags...); code != 1 || !strings.Contains(errs, "VAULT_CACERT_BYTES is not supported: unset it and write") {
		t.Errorf("another variable: exit code %d, %q", code, errs)
	}
	t.Setenv(api.EnvVaultCACertBytes, "")
	t.Setenv(api.EnvVaultAddress, "http://user:canary@"+strings.TrimPrefix(v.Addr(), "http://"))
	if code, _, errs := vaultRun(flags...); code != 1 || !strings.Contains(errs, "contains a user") || strings.Contains(errs, "canary") {
		t.Errorf("a user: exit code %d, %q", code, errs)
	}
	t.Setenv(api.EnvVaultAddress, v.Addr())
	v.Seal()
	if code, _, errs := vaultRun(flags...); code != 1 || !strings.Contains(errs, "Vault is sealed or not initialized") {
		t.Errorf("sealed: exit code %d, %q", code, errs)
	}
	if err := v.Set(testvault.Mode{Refuse: true}); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := vaultRun(flags...); code != 1 || !strings.Contains(errs, "set VAULT_ADDR to the address of Vault") {
		t.Errorf("Vault is down: exit code %d, %q", code, errs)
	}
}

// TestVault_Questions checks the answers at a terminal, and that nothing changes after a no.
func TestVault_Questions(t *testing.T) {
	v, flags, _ := vaultStarted(t, testvault.Config{})
	url, ca := strings.TrimPrefix(flags[1], "-jwks-url="), strings.TrimPrefix(flags[2], "-jwks-ca-file=")
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		destroy       bool
		answer, shown string
		exists        bool
	}{
		{false, "n\n", "Create them? [y/N] Nothing changed.", false},
		{false, "\n", "These objects will be created in Vault:\n  * JWT auth method", false},
		{false, "y\n", `[✔] Created role "nomad-workloads".`, true},
		{false, "", `[✔] Role "nomad-workloads" already exists.`, true}, // no question
		{true, "n\n", "the tokens of all workloads end:\n  * role", true},
		{true, "yes\n", "[✔] Deleted JWT auth method", false},
	} {
		var out, errs strings.Builder
		run := term.Command{Name: "setup vault", Setup: func(*term.Flags) term.Run {
			return func(ctx context.Context, e *term.Env) error {
				return setupVault(ctx, e, &vaultOptions{options: options{url: url, ca: string(text), destroy: step.destroy}, kv: "secret"})
			}
		}}
		if code := run.Adapt(strings.NewReader(step.answer), &out, &errs).Run(nil); code != 0 || !strings.Contains(out.String(), step.shown) {
			t.Errorf("answer %q: exit code %d\n%s%s, want %q", step.answer, code, out.String(), errs.String(), step.shown)
		}
		_, err := vaultAdmin(t, v, v.Root(), "").Logical().Read("sys/auth/jwt-nomad")
		var status *api.ResponseError
		if exists := err == nil; exists != step.exists || err != nil && !errors.As(err, &status) {
			t.Errorf("answer %q: the auth method exists: %t, %v", step.answer, exists, err)
		}
	}
}

// TestVault_Check checks the tables, the exit codes and the formats of -check, and that Vault is not asked.
func TestVault_Check(t *testing.T) {
	const ready, not = `{"JobsWithoutVaultIdentity": [], "OutdatedNodes": [], "VaultTokens": null}`,
		`{"JobsWithoutVaultIdentity": [{"ID": "web", "Namespace": "prod", "Type": "service", "Status": "running"}],` +
			`"OutdatedNodes": [{"ID": "0a1b2c3d-0000-0000-0000-000000000000", "Name": "n1", "Datacenter": "dc1", "Version": "1.6.0", "Status": "ready"}]}`
	answer, status := ready, http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/v1/operator/upgrade-check/vault-workload-identity" {
			t.Errorf("unexpected call %s %s", r.Method, r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer)) // the client reports a failure
	}))
	defer s.Close()
	t.Setenv(api.EnvVaultAddress, "http://127.0.0.1:1")
	for _, c := range []struct {
		answer string
		status int
		flags  string
		code   int
		want   string
	}{
		{ready, 200, "", 0, "Nomad cluster is ready to use workload identities with Vault.\n"},
		{ready, 200, "-json", 0, `"JobsWithoutVaultIdentity": []`},
		{ready, 200, "-t={{.OutdatedNodes|len}}", 0, "0\n"},
		{not, 200, "-json", 1, `"ID": "web"`},
		{not, 200, "-t={{.OutdatedNodes|len}}", 1, "1\n"},
		{not, 200, "", 1, "web  prod       service  running\n"},
		{not, 200, "", 1, "0a1b2c3d  n1    dc1         1.6.0    false  <none>       ready\n"},
		{not, 200, "-verbose", 1, "0a1b2c3d-0000-0000-0000-000000000000"},
		{"Permission denied", 403, "", 1, "Error checking the cluster"},
	} {
		answer, status = c.answer, c.status
		code, out, errs := vaultRun(append(strings.Fields(c.flags), "-check", "-address="+s.URL)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit code %d, want %d\n%s%s\nwant %s", c.flags, code, c.code, out, errs, c.want)
		}
	}
}
