package identity_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// duty is what happens to a running job of two tasks with tokens: one prestart, and one main.
type duty struct {
	name string
	job  func(id string) string
	do   func(w *onVault, job string, al *api.AllocationListStub)
	// kept reports that the allocation and its token stay. Otherwise another allocation runs, with a token of its own.
	kept   bool
	starts int // of the task of the allocation that runs at the end
}

// oneTask is a job whose task has a token with a short lease, secret blocks and a template. Its secrets are those of store.
func oneTask(id string) string {
	return vaultJob(id, secretTask(id, "t", `role = "short"`, "restart {\n delay = \"1s\"\n}"))
}

// duties are the duties with which tokens meet.
var duties = []duty{
	{"restart of the task", oneTask, func(w *onVault, _ string, al *api.AllocationListStub) {
		w.command("alloc", "restart", al.ID)
	}, true, 2},
	{"exit of the task", oneTask, func(w *onVault, job string, al *api.AllocationListStub) {
		w.command("alloc", "signal", "-s", "SIGKILL", al.ID)
	}, true, 2},
	{"restart of the agent", oneTask, func(w *onVault, _ string, _ *api.AllocationListStub) {
		if err := w.a.Stop(); err != nil {
			w.t.Fatal(err)
		}
		w.a = harness.Restart(w.owner, w.a)
	}, true, 1},
	{"kill of the agent", oneTask, func(w *onVault, _ string, _ *api.AllocationListStub) { w.kill(func() {}) }, true, 1},
	{"kill of the agent while Vault is down", oneTask, func(w *onVault, job string, al *api.AllocationListStub) {
		w.set(testvault.Mode{Refuse: true})
		w.kill(func() {})
		if now := harness.Await(w.t, w.a, job, "running", 1)[0]; now.ID != al.ID {
			w.t.Error("the allocation was replaced")
		}
		w.set(testvault.Mode{})
	}, true, 1},
	{"restart of Vault", oneTask, func(w *onVault, _ string, _ *api.AllocationListStub) {
		if err := w.v.Restart(); err != nil {
			w.t.Fatal(err)
		}
	}, true, 1},
	{"seal of Vault", oneTask, func(w *onVault, _ string, _ *api.AllocationListStub) {
		w.v.Seal()
		before := w.renewals()
		harness.Within(w.t, harness.Patience, "a renewal while Vault is sealed", func() bool { return w.renewals() > before })
		w.v.Unseal()
	}, true, 1},
	{"update in place", oneTask, func(w *onVault, job string, al *api.AllocationListStub) {
		harness.Run(w.t, w.a, strings.Replace(oneTask(job), "group \"g\" {", "group \"g\" {\n count = 2\n", 1))
		harness.Await(w.t, w.a, job, "running", 2)
		harness.Within(w.t, harness.Patience, "two tokens", func() bool { return len(w.v.Tokens()) == 2 })
		harness.Run(w.t, w.a, oneTask(job))
		harness.Await(w.t, w.a, job, "running", 1)
		harness.Within(w.t, harness.Patience, "one token", func() bool { return len(w.v.Tokens()) == 1 })
	}, true, 1},
	{"destructive update", oneTask, func(w *onVault, job string, _ *api.AllocationListStub) {
		harness.Run(w.t, w.a, strings.Replace(oneTask(job), `"short"`, `"nomad-workloads"`, 1))
	}, false, 1},
	{"stop of the allocation", oneTask, func(w *onVault, _ string, al *api.AllocationListStub) {
		w.command("alloc", "stop", "-detach", al.ID)
	}, false, 1},
	{"drain", oneTask, func(w *onVault, _ string, _ *api.AllocationListStub) {
		node := harness.NodeID(w.t, w.a)
		w.command("node", "drain", "-enable", "-yes", "-detach", node)
		w.none()
		w.command("node", "drain", "-disable", "-yes", "-detach", node)
	}, false, 1},
	{"kill of the supervisor", oneTask, func(w *onVault, _ string, _ *api.AllocationListStub) {
		pid := harness.Supervisor(w.t, w.dir)
		if pid == 0 {
			w.t.Fatal("the node has no supervisor")
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			w.t.Fatal(err)
		}
		harness.Within(w.t, harness.Patience, "the supervisor ends", func() bool { return harness.Supervisor(w.t, w.dir) != pid })
	}, true, 1},
	{"end of a prestart task", func(id string) string {
		return vaultJob(id, secretTask(id, "t", `role = "short"`, ""), strings.Replace(vaultTask("init", "", harness.Lifecycle("prestart", false)),
			"while :; do sleep 0.2; done", "exit 0", 1))
	}, func(w *onVault, _ string, al *api.AllocationListStub) {
		harness.Within(w.t, harness.Patience, "the token of the prestart task is revoked", func() bool { return len(w.v.Tokens()) == 1 })
		if w.printed(al, "init", "same") != 1 {
			w.t.Error("the prestart task had no token")
		}
	}, true, 1},
	{"batch token", func(id string) string {
		return vaultJob(id, secretTask(id, "t", "role = \"batch\"\nchange_mode = \"noop\"", ""))
	}, func(w *onVault, job string, al *api.AllocationListStub) {
		first := w.token(al, "t")
		harness.Within(w.t, harness.Patience, "a new login", func() bool { return w.works(al, "t") && w.token(al, "t") != first })
	}, true, 1},
	{"token that may expire", func(id string) string {
		return vaultJob(id, vaultTask("t", "role = \"short\"\nallow_token_expiration = true", ""))
	}, func(w *onVault, job string, al *api.AllocationListStub) {
		logins := w.logins()
		w.v.Advance(time.Minute)
		w.none()
		w.kill(func() {})
		if now := harness.Await(w.t, w.a, job, "running", 1)[0]; now.ID != al.ID || w.logins() != logins {
			w.t.Errorf("%d logins after the end of a token that may expire", w.logins()-logins)
		}
		w.command("alloc", "restart", al.ID) // the next process needs another one
	}, true, 2},
}

// command runs a command of the CLI.
func (w *onVault) command(args ...string) {
	w.t.Helper()
	if out, err := harness.Command(w.t, w.a, args...); err != nil {
		w.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// changesToken lists the duties in which the task gets another token although the allocation stays.
var changesToken = []string{"batch token", "token that may expire"}

// TestVault_Duties checks that no task and no token is lost in what happens to an allocation, and that no token remains after it.
func TestVault_Duties(t *testing.T) {
	t.Parallel() // it mostly waits
	w := startVault(t, fastTemplates)
	defer w.purge()
	w.trust()
	w.role("short", map[string]any{"token_period": "20s"})
	w.role("batch", map[string]any{"token_type": "batch", "token_period": nil, "token_ttl": "5s"})
	w.v.Expect("unknown token") // that may expire
	defer func() { w.t = t }()
	for i, d := range duties {
		t.Run(d.name, func(t *testing.T) {
			w.t = t
			id := fmt.Sprintf("duty-%d", i)
			w.store(id)
			harness.Run(t, w.a, d.job(id))
			al := w.running(id, "t", 1)
			token := w.token(al, "t")
			d.do(w, id, al)
			if !d.kept {
				harness.Within(t, harness.Patience, "another allocation", func() bool {
					now := harness.Allocs(t, w.a, id, "running")
					return len(now) == 1 && now[0].ID != al.ID
				})
			}
			now := w.running(id, "t", d.starts)
			if (now.ID == al.ID) != d.kept {
				t.Errorf("the same allocation: %t, want %t", now.ID == al.ID, d.kept)
			}
			same := d.kept && !slices.Contains(changesToken, d.name)
			if got := w.token(now, "t") == token; got != same {
				t.Errorf("the same token: %t, want %t", got, same)
			}
			harness.Within(t, harness.Patience, "one token", func() bool { return len(w.v.Tokens()) == 1 })
			if strings.Contains(d.job(id), "template") {
				w.follows(id, now, d.starts)
			}
			if s := now.TaskStates["t"]; s.Failed || s.State != "running" {
				t.Errorf("the task is %s, failed %t", s.State, s.Failed)
			}
			harness.StopAndWait(t, w.a, id, len(harness.AllAllocs(t, w.a, id)))
			w.none()
			renewals := w.renewals()
			harness.PurgeAll(t, w.a)
			harness.WaitCollected(t, w.a, filepath.Join(w.dir, "data"))
			if got := w.renewals(); got != renewals {
				t.Errorf("%d renewals after the end of the task", got-renewals)
			}
		})
	}
}

// TestVault_Collected checks that the tokens of an allocation that ended while Vault was down are revoked when Vault returns,
// by an agent that was killed and restarted after the collection.
func TestVault_Collected(t *testing.T) {
	t.Parallel() // it mostly waits
	w := startVault(t, "")
	defer w.purge()
	w.trust()
	harness.Run(t, w.a, vaultJob("shop", vaultTask("t", "", "")))
	w.running("shop", "t", 1)
	w.set(testvault.Mode{Refuse: true})
	harness.StopAndWait(t, w.a, "shop", 1)
	harness.PurgeAll(t, w.a)
	harness.WaitCollected(t, w.a, filepath.Join(w.dir, "data"))
	w.kill(func() {})
	if len(w.v.Tokens()) != 1 {
		t.Error("the token was revoked while Vault was away")
	}
	w.set(testvault.Mode{})
	w.none()
}

// TestVault_Dev checks that an agent whose node ends with it revokes the tokens.
func TestVault_Dev(t *testing.T) {
	t.Parallel() // it mostly waits
	w := startVault(t, "", func(o *cluster.Options) { o.Args = []string{"-dev", "-bind=127.0.0.1"} })
	w.trust()
	harness.Run(t, w.a, vaultJob("shop", vaultTask("t", "", "")))
	harness.Await(t, w.a, "shop", "running", 1)
	if got := len(w.v.Tokens()); got != 1 {
		t.Fatalf("%d tokens, want 1", got)
	}
	if err := w.a.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := len(w.v.Tokens()); got != 0 {
		t.Errorf("%d tokens remain after the end of the agent", got)
	}
}
