package template_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/client/vault/token"
	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/internal/testvault"
	"github.com/open-nomad/open-nomad/internal/vault"
	vaultreads "github.com/open-nomad/open-nomad/internal/vault/readproxy"
	"github.com/open-nomad/open-nomad/nomad"
)

// readTeam is the policy of the tokens of these tests.
const readTeam = `path "secret/data/app" { capabilities = ["read"] }
path "database/creds/app" { capabilities = ["read"] }`

// withVault makes the client of the task one with Vault. The token is that of world.secret.
func (w *world) withVault(v *testvault.Vault) {
	w.t.Helper()
	c, err := vault.New(vault.Settings{Name: vault.DefaultCluster, Address: v.Addr()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.vault = c
	w.vaultToken = vaultreads.Token{Current: func() (string, string) { return w.consulToken(), "" }}
	w.config.VaultRetry = render.Retry{Backoff: 10 * time.Millisecond, MaxBackoff: 200 * time.Millisecond}
	w.config.VaultDefaultLease = time.Second
	w.restartAgent()
}

// vaultClient writes as the root of a Vault.
type vaultClient struct {
	t *testing.T
	v *testvault.Vault
}

func (c vaultClient) write(path string, data map[string]any) map[string]any {
	c.t.Helper()
	cluster, err := vault.New(vault.Settings{Name: vault.DefaultCluster, Address: c.v.Addr()})
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := cluster.Client(c.v.Root(), "").Logical().WriteWithContext(c.t.Context(), path, data)
	if err != nil {
		c.t.Fatal(err)
	}
	if s != nil && s.Auth != nil {
		return map[string]any{"token": s.Auth.ClientToken}
	}
	return nil
}

// put sets the key pass of the secret app.
func (c vaultClient) put(value string) {
	c.t.Helper()
	c.write("secret/data/app", map[string]any{"data": map[string]any{"pass": value}})
}

// token returns a token that may read the secret app.
func (c vaultClient) token() string {
	c.t.Helper()
	c.write("sys/policies/acl/team", map[string]any{"policy": readTeam})
	return c.write("auth/token/create", map[string]any{"policies": []string{"team"}})["token"].(string)
}

func app(dest string) *nomad.Template {
	return text(dest, `{{ with secret "secret/app" }}{{ .Data.data.pass }}{{ end }}`)
}

// TestVault_Changes checks that change modes follow a secret in Vault, also one that changed while the agent was down, and
// that neither an outage nor a seal touches the task, with one event for the begin of each and one for its end.
func TestVault_Changes(t *testing.T) {
	t.Parallel() // it mostly waits
	v := testvault.Start(t, testvault.Config{})
	c := vaultClient{t, v}
	c.put("one")
	w := newWorld(t)
	w.setToken(c.token())
	w.withVault(v)
	list := with(app("local/x"), func(t *nomad.Template) { t.ChangeMode, t.ChangeSignal = "signal", "SIGHUP" })
	b := w.runs(list)
	if got := w.file("local/x"); got != "one" {
		t.Errorf("the file = %q", got)
	}
	c.put("two")
	w.until("a change is followed, with a signal", func() bool { return w.file("local/x") == "two" && len(w.task.sent()) == 1 })
	before := v.Calls("GET /v1/secret/data/app")
	w.until("the same value is read again", func() bool { return v.Calls("GET /v1/secret/data/app") > before+1 })

	b.stop()
	w.restartAgent()
	c.put("three")
	again := w.start(list)
	again.Running = true
	w.mustBegin(again)
	w.all.Started(nil)
	w.until("the missed change is applied", func() bool { return w.file("local/x") == "three" && len(w.task.sent()) == 2 })

	for _, outage := range []struct{ begin, end func() error }{
		{func() error { return v.Set(testvault.Mode{Refuse: true}) }, func() error { return v.Set(testvault.Mode{}) }},
		{func() error { v.Seal(); return nil }, func() error { v.Unseal(); return nil }},
	} {
		before := len(w.task.messages(nomad.TaskTemplate))
		if err := outage.begin(); err != nil {
			t.Fatal(err)
		}
		w.until("the outage is reported", func() bool { return len(w.task.messages(nomad.TaskTemplate)) == before+1 })
		if err := outage.end(); err != nil {
			t.Fatal(err)
		}
		w.until("the end is reported", func() bool { return len(w.task.messages(nomad.TaskTemplate)) == before+2 })
	}
	got := w.task.messages(nomad.TaskTemplate)
	if !strings.HasPrefix(got[0], "Cannot read vault.read(secret/app): Vault does not answer: ") || !strings.Contains(got[0], "The last content stays") ||
		!strings.HasPrefix(got[1], "Templates are up to date again") ||
		!strings.HasPrefix(got[2], "Cannot read vault.read(secret/app): Vault returned status 503: Vault is sealed") {
		t.Errorf("events = %q", got)
	}
	if strings.Contains(strings.Join(got, ""), w.consulToken()) || len(w.task.sent()) != 2 || len(w.task.killed()) > 0 || w.file("local/x") != "three" {
		t.Errorf("events = %q, signals %v, kills %v", got, w.task.sent(), w.task.killed())
	}
}

// TestVault_Token checks that a task without a token waits with an event, and that a token that Vault does not accept any
// more is replaced by that of another login, without a restart of the program and before the read counts as failed.
func TestVault_Token(t *testing.T) {
	t.Parallel() // it mostly waits
	v := testvault.Start(t, testvault.Config{})
	v.Expect("unknown token")
	c := vaultClient{t, v}
	c.put("one")
	w := newWorld(t)
	w.withVault(v)
	w.vaultToken.Rejected = func(_ context.Context, secret string) bool {
		if secret != w.consulToken() {
			return true
		}
		w.setToken(c.token())
		return true
	}
	w.restartAgent()
	done := make(chan error, 1)
	go func() {
		_, err := w.begin(w.start(app("local/x")))
		done <- err
	}()
	w.until("the missing token is reported", func() bool {
		list := w.task.messages(nomad.TaskTemplate)
		return count(list, "Missing: vault.read(secret/app)") == 1 &&
			count(list, "Cannot read vault.read(secret/app): the task has no token of Vault, because its login has failed") == 1
	})
	first := c.token()
	w.setToken(first)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	before := len(w.task.messages(nomad.TaskTemplate))
	v.Lost(first)
	c.put("two")
	w.until("the next token is used", func() bool { return w.file("local/x") == "two" })
	if started, _ := w.programsRun(); started != 1 || w.consulToken() == first {
		t.Errorf("%d programs were started", started)
	}
	if list := w.task.messages(nomad.TaskTemplate)[before:]; count(list, "Cannot read") > 0 {
		t.Errorf("events = %q", list)
	}
}

// logIn makes a secret the current one, and returns when the templates have received it.
func (w *world) logIn(secret string) {
	w.setToken(secret)
	for range 2 { // the second is received after the first was handled
		w.logins <- token.Token{Secret: login.NewSecret(secret)}
	}
}

// creds returns a template that renders credentials with a lease.
func creds(dest string) *nomad.Template {
	return text(dest, `{{ with secret "database/creds/app" }}{{ .Data.username }}{{ end }}`)
}

// TestVault_NewLogin checks that credentials whose lease has ended with a lost token are read anew after the next login, long
// before the end of the lease, that the login ends an outage, and that the same token again has no effect.
func TestVault_NewLogin(t *testing.T) {
	t.Parallel() // it mostly waits
	v := testvault.Start(t, testvault.Config{})
	v.Expect("unknown token")
	v.Dynamic("database/creds/app", testvault.Dynamic{TTL: time.Hour, Renewable: true})
	c := vaultClient{t, v}
	c.put("one")
	w := newWorld(t)
	first := c.token()
	w.setToken(first)
	w.withVault(v)
	w.vars.Set("a", map[string]string{"x": "1"})
	signal := func(t *nomad.Template) { t.ChangeMode, t.ChangeSignal = "signal", "SIGHUP" }
	once := func(t *nomad.Template) { t.Once, t.ChangeMode = true, "restart" }
	w.runs(with(creds("local/creds"), signal), with(creds("local/once"), once), app("local/x"), variable("local/a", "a", "x"))
	before, kept := w.file("local/creds"), w.file("local/once")

	w.logIn(first) // as the hook receives it at the begin of a watch
	w.vars.Set("a", map[string]string{"x": "2"})
	w.until("a change is followed", func() bool { return w.file("local/a") == "2" })
	if started, _ := w.programsRun(); started != 1 || w.file("local/creds") != before {
		t.Errorf("%d programs were started without a new login", started)
	}

	v.Lost(first)
	w.until("the outage is reported", func() bool { return count(w.task.messages(nomad.TaskTemplate), "Cannot read") == 1 })
	w.logIn(c.token())
	w.until("other credentials are in the file, with a signal", func() bool {
		now := w.file("local/creds")
		return strings.HasPrefix(now, "u-") && now != before && len(w.task.sent()) == 1
	})
	w.until("the end of the outage is reported", func() bool {
		return count(w.task.messages(nomad.TaskTemplate), "Templates are up to date again") == 1
	})
	started, _ := w.programsRun()
	if started != 2 || w.file("local/once") != kept || w.task.restarted() != 0 || len(w.task.killed()) > 0 || len(v.Leases()) != 1 {
		t.Errorf("%d programs were started, restarts %d, kills %v, leases %v, once %q, was %q", started, w.task.restarted(), w.task.killed(),
			v.Leases(), w.file("local/once"), kept)
	}
}

// TestVault_LoginDuringStart checks that a start that waits for data goes on waiting after a new login, and has credentials of
// the new token.
func TestVault_LoginDuringStart(t *testing.T) {
	t.Parallel() // it mostly waits
	v := testvault.Start(t, testvault.Config{})
	v.Dynamic("database/creds/app", testvault.Dynamic{TTL: time.Hour, Renewable: true})
	c := vaultClient{t, v}
	w := newWorld(t)
	first := c.token()
	w.setToken(first)
	w.withVault(v)
	done := make(chan error, 1)
	go func() {
		_, err := w.begin(w.start(with(creds("local/creds"), func(t *nomad.Template) { t.ChangeMode = "restart" }), variable("local/a", "a", "x")))
		done <- err
	}()
	w.until("the credentials are read", func() bool { return len(v.Leases()) == 1 })
	v.Lost(first)
	w.logIn(c.token())
	w.until("they are read anew", func() bool { return len(v.Leases()) == 1 })
	select {
	case err := <-done:
		t.Fatalf("Begin() = %v while data is missing", err)
	default:
	}
	w.vars.Set("a", map[string]string{"x": "1"})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.all.Started(nil)
	started, _ := w.programsRun()
	if started != 2 || !strings.HasPrefix(w.file("local/creds"), "u-") || w.task.restarted() != 0 || len(w.task.killed()) > 0 {
		t.Errorf("%d programs were started, %d restarts, kills %v, file %q", started, w.task.restarted(), w.task.killed(), w.file("local/creds"))
	}
}

// TestVault_RenderAgain checks that credentials of a render on demand are replaced by some whose lease the watching program
// renews, and that a comparison changes nothing.
func TestVault_RenderAgain(t *testing.T) {
	t.Parallel() // it mostly waits
	v := testvault.Start(t, testvault.Config{})
	v.Dynamic("database/creds/app", testvault.Dynamic{TTL: 6 * time.Second, Renewable: true})
	w := newWorld(t)
	w.setToken(v.Root())
	w.withVault(v)
	w.config.VaultDefaultLease = time.Hour
	w.restartAgent()
	w.runs(text("secrets/db", `{{ with secret "database/creds/app" }}{{ .LeaseID }}{{ end }}`))
	first := w.file("secrets/db")
	diffs, err := w.all.CompareRender(t.Context())
	if err != nil || len(diffs) != 1 || !diffs[0].Changed || w.file("secrets/db") != first {
		t.Errorf("CompareRender() = %+v, %v", diffs, err)
	}
	if started, running := w.programsRun(); started != 2 || running != 1 {
		t.Errorf("%d programs were started, %d run", started, running)
	}
	diffs, err = w.all.RenderAgain(t.Context())
	if err != nil || len(diffs) != 1 || !diffs[0].Changed || w.file("secrets/db") == first {
		t.Errorf("RenderAgain() = %+v, %v", diffs, err)
	}
	w.until("the watching program has begun anew", func() bool {
		started, running := w.programsRun()
		return started == 4 && running == 1 && v.Calls("GET /v1/database/creds/app") == 4
	})
	before := v.Calls("PUT /v1/sys/leases/renew")
	w.until("its lease is renewed", func() bool { return v.Calls("PUT /v1/sys/leases/renew") > before })
	if n := v.Calls("GET /v1/database/creds/app"); n != 4 || len(w.task.killed()) > 0 {
		t.Errorf("%d credentials, kills %v", n, w.task.killed())
	}
}

// TestVault_Retry checks that reads are repeated without end before the first render, unless the operator has set a number,
// and that no number ends a running task.
func TestVault_Retry(t *testing.T) {
	t.Parallel() // it mostly waits
	v := testvault.Start(t, testvault.Config{})
	c := vaultClient{t, v}
	c.put("one")
	w := newWorld(t)
	w.setToken(v.Root())
	w.withVault(v)
	w.config.VaultRetry.Attempts = 2
	w.restartAgent()
	_, err := w.begin(w.start(text("local/y", `{{ with secret "secret/none" }}{{ . }}{{ end }}`)))
	const want = `Template failed: template with destination "local/y": vault.read(secret/none): no secret exists at secret/data/none`
	if err == nil || err.Error() != want {
		t.Errorf("Begin() = %v, want %s", err, want)
	}
	if n := v.Calls("GET /v1/secret/data/none"); n != 3 {
		t.Errorf("%d reads", n)
	}
	w.runs(app("local/x"))
	if err := v.Set(testvault.Mode{Status: 501}); err != nil { // is not repeated within a read
		t.Fatal(err)
	}
	before := v.Calls("GET /v1/sys/internal/ui/mounts/secret/app")
	w.until("more reads fail than the number", func() bool { return v.Calls("GET /v1/sys/internal/ui/mounts/secret/app") > before+6 })
	if len(w.task.killed()) > 0 || w.file("local/x") != "one" {
		t.Errorf("kills %v, file %q", w.task.killed(), w.file("local/x"))
	}
}

// TestVault_Certificate checks that a restarted agent keeps the certificate of an unchanged template.
func TestVault_Certificate(t *testing.T) {
	t.Parallel() // it mostly waits
	const body = `{{ with pkiCert "pki/issue/web" "common_name=%s.test" }}{{ .Key }}{{ .Cert }}{{ .CA }}{{ end }}`
	v := testvault.Start(t, testvault.Config{})
	w := newWorld(t)
	w.setToken(v.Root())
	w.withVault(v)
	list := text("secrets/cert.pem", strings.ReplaceAll(body, "%s", "web"))
	b := w.runs(list)
	first := w.file("secrets/cert.pem")
	if !strings.Contains(first, "PRIVATE KEY") || !strings.Contains(first, "CERTIFICATE") {
		t.Errorf("the file has %d bytes", len(first))
	}
	b.stop()
	w.restartAgent()
	again := w.start(list)
	again.Running = true
	b = w.mustBegin(again)
	w.all.Started(nil)
	w.until("the second program runs", func() bool { started, running := w.programsRun(); return started == 2 && running == 1 })
	diffs, err := w.all.CompareRender(t.Context())
	if err != nil || len(diffs) != 1 || diffs[0].Changed {
		t.Errorf("CompareRender() = %d differences, %v", len(diffs), err)
	}
	if n := v.Calls("PUT /v1/pki/issue/web"); n != 1 || w.file("secrets/cert.pem") != first {
		t.Errorf("%d certificates were issued", n)
	}
	b.stop()
	w.restartAgent()
	w.runs(text("secrets/cert.pem", strings.ReplaceAll(body, "%s", "other")))
	if n := v.Calls("PUT /v1/pki/issue/web"); n != 2 || w.file("secrets/cert.pem") == first {
		t.Errorf("%d certificates were issued, after a change of the template", n)
	}
}

// TestVault_NoBlock checks that a task without a vault block gets an error, and no token of the agent.
func TestVault_NoBlock(t *testing.T) {
	t.Setenv("VAULT_TOKEN", "of-the-agent")
	v := testvault.Start(t, testvault.Config{})
	w := newWorld(t)
	w.withVault(v)
	w.vaultToken = vaultreads.Token{}
	w.restartAgent()
	_, err := w.begin(w.start(app("local/x")))
	if err == nil || !strings.Contains(err.Error(), "secret: the function is refused: the task has no vault block") {
		t.Errorf("Begin() = %v", err)
	}
	w.vault = nil
	w.restartAgent()
	_, err = w.begin(w.start(app("local/x")))
	if err == nil || !strings.Contains(err.Error(), "the client has no enabled vault block in its configuration") {
		t.Errorf("Begin() = %v", err)
	}
	if n := v.Calls("GET /v1/secret/data/app"); n != 0 {
		t.Errorf("Vault got %d reads", n)
	}
}
