package identity_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	vaultapi "github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// vaultScript prints a line at each start if the environment has the token of the file, and one at each SIGHUP.
const vaultScript = `trap "echo hup" HUP; [ -z "$VAULT_ADDR" ] && [ -n "$VAULT_TOKEN" ] && ` +
	`[ "$VAULT_TOKEN" = "$(cat $NOMAD_SECRETS_DIR/vault_token)" ] && echo same; while :; do sleep 0.2; done`

// vaultTask returns a task. The lines of block are those of its vault block, more are further ones of the task.
func vaultTask(name, block, more string) string {
	return fmt.Sprintf("task %q {\n driver = \"raw_exec\"\n vault {\n%s\n}\n config {\n command = \"/bin/sh\"\n args = [\"-c\", %q]\n}\n"+
		" resources {\n cpu = 10\n memory = 10\n}\n%s\n}\n", name, block, vaultScript, more)
}

// vaultJob returns a job of one group with the given blocks.
func vaultJob(id string, blocks ...string) string {
	return fmt.Sprintf("job %q {\n group \"g\" {\n reschedule {\n delay = \"5s\"\n delay_function = \"constant\"\n}\n%s}\n}\n", id,
		strings.Join(blocks, ""))
}

// onVault is an agent whose tasks log in to a Vault.
type onVault struct {
	t     *testing.T // of the current row
	owner *testing.T // whose end is that of the agents
	v     *testvault.Vault
	a     *cluster.Agent
	dir   string // of the agent; its data is below data
}

// startVault starts an agent. Its tasks can log in after trust. The configuration follows the vault block.
func startVault(t *testing.T, config string, changes ...func(*cluster.Options)) *onVault {
	t.Helper()
	harness.NeedsRoot(t)
	w := &onVault{t: t, owner: t, v: testvault.Start(t, testvault.Config{}), dir: harness.TempDir(t)}
	cfg := filepath.Join(w.dir, "c.hcl")
	harness.WriteFile(t, cfg, harness.TestDrivers+fmt.Sprintf("log_level = \"TRACE\"\nvault {\n enabled = true\n address = %q\n"+
		" default_identity {\n aud = [\"vault.io\"]\n ttl = \"2h\"\n}\n}\n%s", w.v.Addr(), config))
	o := cluster.Options{Dir: w.dir, Lean: true,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(w.dir, "data")}}
	for _, change := range changes {
		change(&o)
	}
	o.Args = append(o.Args, "-config="+cfg)
	w.a = harness.Start(t, o)
	harness.Within(t, harness.Patience, "the node has Vault", func() bool {
		node, _, err := w.a.Client.Nodes().Info(harness.NodeID(t, w.a), nil)
		return err == nil && node.Attributes["vault.accessible"] == "true"
	})
	return w
}

// purge ends the tasks.
func (w *onVault) purge() { harness.PurgeAll(w.t, w.a) }

// client returns a client of Vault with a token.
func (w *onVault) client(token string) *vaultapi.Client {
	w.t.Helper()
	c, err := vaultapi.NewClient(&vaultapi.Config{Address: w.v.Addr()})
	if err != nil {
		w.t.Fatal(err)
	}
	c.SetToken(token)
	return c
}

// trust makes the objects of Vault with which tasks log in, as operators do.
func (w *onVault) trust() {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "nomad", "setup", "vault", "-y", "-jwks-url="+w.a.Address()+"/.well-known/jwks.json")
	cmd.Env = append(os.Environ(), "VAULT_ADDR="+w.v.Addr(), "VAULT_TOKEN="+w.v.Root())
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
}

// role makes a role like that of trust, with changes.
func (w *onVault) role(name string, change map[string]any) {
	w.t.Helper()
	role := map[string]any{"role_type": "jwt", "bound_audiences": "vault.io", "user_claim": "/nomad_job_id", "user_claim_json_pointer": true,
		"token_type": "service", "token_period": "30m", "token_policies": []string{"nomad-workloads"},
		"claim_mappings": map[string]string{"nomad_namespace": "nomad_namespace", "nomad_job_id": "nomad_job_id", "nomad_task": "nomad_task"}}
	maps.Copy(role, change)
	maps.DeleteFunc(role, func(_ string, value any) bool { return value == nil })
	if _, err := w.client(w.v.Root()).Logical().Write("auth/jwt-nomad/role/"+name, role); err != nil {
		w.t.Fatal(err)
	}
}

// set sets how Vault serves requests.
func (w *onVault) set(m testvault.Mode) {
	w.t.Helper()
	if err := w.v.Set(m); err != nil {
		w.t.Fatal(err)
	}
}

// logins returns how many logins there were.
func (w *onVault) logins() int { return w.v.Calls("PUT /v1/auth/jwt-nomad/login") }

// renewals returns how many requests to renew a token there were.
func (w *onVault) renewals() int { return w.v.Calls("PUT /v1/auth/token/renew-self") }

// path returns a file of an allocation.
func (w *onVault) path(al *api.AllocationListStub, parts ...string) string {
	return filepath.Join(append([]string{w.dir, "data", "alloc", al.ID}, parts...)...)
}

// token returns the token in the file of a task, "" without a file.
func (w *onVault) token(al *api.AllocationListStub, task string) string {
	text, err := os.ReadFile(w.path(al, task, "secrets", "vault_token"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return string(text)
}

// works reports whether Vault accepts the token of a task, without a renewal.
func (w *onVault) works(al *api.AllocationListStub, task string) bool {
	token := w.token(al, task)
	return token != "" && slices.Contains(w.v.Tokens(), token)
}

// printed returns how often a task has printed a line.
func (w *onVault) printed(al *api.AllocationListStub, task, line string) int {
	text, err := os.ReadFile(w.path(al, "alloc", "logs", task+".stdout.0"))
	if err != nil {
		return 0
	}
	n := 0
	for one := range strings.Lines(string(text)) {
		if one == line+"\n" {
			n++
		}
	}
	return n
}

// running waits until the only running allocation of a job has a task whose token works and which has started n times.
func (w *onVault) running(job, task string, n int) *api.AllocationListStub {
	w.t.Helper()
	al := harness.Await(w.t, w.a, job, "running", 1)[0]
	harness.Within(w.t, harness.Patience, fmt.Sprintf("task %s of %s has a token, and has started %d times", task, job, n), func() bool {
		return w.works(al, task) && w.printed(al, task, "same") == n
	})
	return w.alloc(job, al.ID)
}

// alloc returns the newest state of an allocation.
func (w *onVault) alloc(job, id string) *api.AllocationListStub {
	w.t.Helper()
	for _, al := range harness.AllAllocs(w.t, w.a, job) {
		if al.ID == id {
			return al
		}
	}
	w.t.Fatalf("allocation %s of %s does not exist", id, job)
	return nil
}

// waitsWith waits until a task that has not started has an event with a text.
func (w *onVault) waitsWith(job, task, text string) {
	w.t.Helper()
	var got []string
	defer func() {
		if w.t.Failed() {
			w.t.Logf("the events: %q", got)
		}
	}()
	harness.Within(w.t, harness.Patience, fmt.Sprintf("task %s of %s waits with the event %q", task, job, text), func() bool {
		for _, al := range harness.AllAllocs(w.t, w.a, job) {
			if got = messages(al, task); strings.Contains(strings.Join(got, "\n"), text) {
				return al.TaskStates[task].State == "pending"
			}
		}
		return false
	})
}

// kill kills the agent and starts it again.
func (w *onVault) kill(while func()) {
	w.t.Helper()
	if err := w.a.Kill(); err != nil {
		w.t.Fatal(err)
	}
	while()
	w.a = harness.Restart(w.owner, w.a)
}

// none waits until all tokens are revoked.
func (w *onVault) none() {
	w.t.Helper()
	harness.Within(w.t, harness.Patience, "all tokens are revoked", func() bool { return len(w.v.Tokens()) == 0 })
}

// TestVault runs a job that logs in to Vault: from a start without a trusting Vault over a kill of the agent to the stop. No
// token appears in anything that the agent emits.
func TestVault(t *testing.T) {
	t.Parallel() // it mostly waits
	w := startVault(t, "")
	defer w.purge()
	w.v.Expect("no auth method is mounted there") // before trust
	plain := "task \"plain\" {\n driver = \"raw_exec\"\n config {\n command = \"/bin/sh\"\n" +
		" args = [\"-c\", \"[ -z \\\"$VAULT_TOKEN\\\" ] && echo none; exec sleep 600\"]\n}\n resources {\n cpu = 10\n memory = 10\n}\n}\n"
	harness.Run(t, w.a, vaultJob("shop", vaultTask("t", "", ""), plain))
	w.waitsWith("shop", "t", "Vault")
	w.trust()
	al := w.running("shop", "t", 1)
	token := w.token(al, "t")
	if info, err := os.Stat(w.path(al, "t", "secrets", "vault_token")); err != nil || info.Mode() != 0o640 || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("the file of the token: %v, %v, want mode 0640 and owner root", info, err)
	}
	root := w.client(w.v.Root())
	for _, path := range []string{"secret/data/default/shop/db", "secret/data/default/other/db"} {
		if _, err := root.Logical().Write(path, map[string]any{"data": map[string]any{"k": "v"}}); err != nil {
			t.Fatal(err)
		}
	}
	w.v.Expect("permission denied")
	if s, err := w.client(token).Logical().Read("secret/data/default/shop/db"); err != nil || s == nil {
		t.Errorf("the secret of the job: %v, %v", s, err)
	}
	if _, err := w.client(token).Logical().Read("secret/data/default/other/db"); err == nil {
		t.Error("the token reads the secret of another job")
	}
	harness.Within(t, harness.Patience, "the task without a vault block", func() bool { return w.printed(al, "plain", "none") == 1 })
	if got := w.token(al, "plain"); got != "" {
		t.Error("a task without a vault block has a token")
	}
	logins := w.logins()
	w.kill(func() {})
	now := w.running("shop", "t", 1)
	if !now.TaskStates["t"].StartedAt.Equal(al.TaskStates["t"].StartedAt) || w.logins() != logins || w.token(al, "t") != token {
		t.Errorf("after the kill of the agent: %d logins, want %d; the same token: %t", w.logins(), logins, w.token(al, "t") == token)
	}
	tokens := []string{token, w.v.Root()}
	emitsNone(t, w.a, al, "vault_token", tokens)
	harness.StopAndWait(t, w.a, "shop", 1)
	w.none()
	log := harness.Content(t, filepath.Join(w.dir, "agent.log"))
	if !strings.Contains(log, "login to Vault failed") {
		t.Error("the log has no line about the login")
	}
	search(t, "the log", log, append(tokens, "eyJ")) // the beginning of a JWT
}

// TestVault_Refused checks that a task whose login fails waits with the cause in its events, and starts when that is mended.
func TestVault_Refused(t *testing.T) {
	t.Parallel() // it mostly waits
	w := startVault(t, "")
	defer w.purge()
	w.trust()
	w.v.Expect("could not be found")
	w.v.Expect("does not match")
	for _, tc := range []struct {
		name, block, event string
		fails, mend        func()
	}{
		{"role", `role = "later"`, `role "later"`, func() {}, func() { w.role("later", nil) }},
		{"claim", `role = "bound"`, "nomad_job_id", func() {
			w.role("bound", map[string]any{"bound_claims": map[string]any{"nomad_job_id": "other"}})
		}, func() { w.role("bound", nil) }},
		{"refused", "", "Vault", func() { w.set(testvault.Mode{Refuse: true}) }, func() { w.set(testvault.Mode{}) }},
		{"hangs", "", "Vault", func() { w.set(testvault.Mode{Hang: true}) }, func() { w.set(testvault.Mode{}) }},
		{"proxy", "", "Vault", func() { w.set(testvault.Mode{Status: 502}) }, func() { w.set(testvault.Mode{}) }},
		{"sealed", "", "sealed", w.v.Seal, w.v.Unseal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			tc.fails()
			harness.Run(t, w.a, vaultJob(tc.name, vaultTask("t", tc.block, "")))
			w.waitsWith(tc.name, "t", tc.event)
			tc.mend()
			if al := w.running(tc.name, "t", 1); slices.Contains(harness.Events(al, "t"), "Task hook failed") || al.TaskStates["t"].Failed {
				t.Errorf("events %q", harness.Events(al, "t"))
			}
			harness.StopAndWait(t, w.a, tc.name, 1)
			w.none()
		})
	}
	w.t = t
	w.set(testvault.Mode{Refuse: true})
	harness.Run(t, w.a, vaultJob("stopped", vaultTask("t", "", "")))
	w.waitsWith("stopped", "t", "Vault")
	began := time.Now()
	harness.StopAndWait(t, w.a, "stopped", 1)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the stop of a task that waits for its login took %s", took)
	}
}
