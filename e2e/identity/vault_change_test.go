package identity_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// acquired is the text of the events of change modes.
const acquired = "Vault: new Vault token acquired"

// changes are the tasks of a job, by their change modes.
var changes = []string{"restart", "signal", "noop"}

// changedTimes waits until the tasks of job modes have tokens that work, and each change mode was applied n times.
func (w *onVault) changedTimes(when string, al *api.AllocationListStub, n int) *api.AllocationListStub {
	w.t.Helper()
	counts := func() string {
		return fmt.Sprintf("restart: %d starts, %d hups; signal: %d, %d; noop: %d, %d", w.printed(al, "restart", "same"),
			w.printed(al, "restart", "hup"), w.printed(al, "signal", "same"), w.printed(al, "signal", "hup"), w.printed(al, "noop", "same"),
			w.printed(al, "noop", "hup"))
	}
	want := fmt.Sprintf("restart: %d starts, 0 hups; signal: 1, %d; noop: 1, 0", 1+n, n)
	defer func() {
		if w.t.Failed() {
			w.t.Logf("%s: got %s", when, counts())
		}
	}()
	harness.Within(w.t, harness.Patience, when+": "+want, func() bool {
		return counts() == want && !slices.ContainsFunc(changes, func(task string) bool { return !w.works(al, task) })
	})
	now := w.alloc("modes", al.ID)
	for _, task := range changes {
		s := now.TaskStates[task]
		restarts := map[string]int{"restart": n}[task]
		if s.State != "running" || s.Failed || int(s.Restarts) != restarts {
			w.t.Errorf("%s: task %s is %s, failed %t, %d restarts, want %d", when, task, s.State, s.Failed, s.Restarts, restarts)
		}
	}
	return now
}

// TestVault_ChangeModes checks what follows a new login while the tasks run, and that nothing follows a renewal.
func TestVault_ChangeModes(t *testing.T) {
	t.Parallel() // it mostly waits
	w := startVault(t, "")
	defer w.purge()
	w.trust()
	w.role("short", map[string]any{"token_period": "20s"})
	w.v.Expect("unknown token")
	var blocks []string
	for _, mode := range changes {
		// A restart that counted as a failure would end the task.
		blocks = append(blocks, vaultTask(mode, fmt.Sprintf("role = \"short\"\nchange_mode = %q", mode),
			"restart {\n attempts = 0\n mode = \"fail\"\n}"))
	}
	harness.Run(t, w.a, vaultJob("modes", blocks...))
	al := w.changedTimes("start", harness.Await(t, w.a, "modes", "running", 1)[0], 0)
	tokens := func() map[string]string {
		out := map[string]string{}
		for _, task := range changes {
			out[task] = w.token(al, task)
		}
		return out
	}
	first := tokens()

	before := w.renewals()
	harness.Within(t, harness.Patience, "renewals", func() bool { return w.renewals() >= before+len(changes) })
	w.changedTimes("renewals", al, 0)
	for task, token := range tokens() {
		if token != first[task] {
			t.Errorf("a renewal changed the token of %s", task)
		}
	}

	for _, token := range first {
		w.v.Lost(token)
	}
	now := w.changedTimes("revoked by an operator", al, 1)
	harness.Within(t, harness.Patience, "the event of the signal", func() bool {
		now = w.alloc("modes", al.ID)
		return slices.Contains(harness.Events(now, "signal"), "Signaling")
	})
	if e := harness.Event(t, now, "restart", "Restart Signaled"); e.DisplayMessage != acquired {
		t.Errorf("event %q, want %q", e.DisplayMessage, acquired)
	}
	if e, want := harness.Event(t, now, "signal", "Signaling"), "Task being sent signal SIGHUP: "+acquired; e.DisplayMessage != want {
		t.Errorf("event %q, want %q", e.DisplayMessage, want)
	}

	// Vault is down for longer than the lease: the tasks run on.
	w.set(testvault.Mode{Refuse: true})
	w.v.Advance(time.Minute)
	harness.Within(t, harness.Patience, "the tokens have ended", func() bool { return len(w.v.Tokens()) == 0 })
	w.set(testvault.Mode{})
	w.changedTimes("an outage longer than the lease", al, 2)

	w.kill(func() { w.v.Advance(time.Minute) })
	w.changedTimes("the agent was away for longer than the lease", al, 3)
	logins := w.logins()
	lookups := func() int { return w.v.Calls("GET /v1/auth/token/lookup-self") }
	before = lookups()
	w.kill(func() {})
	harness.Within(t, harness.Patience, "the next agent accepts the tokens", func() bool { return lookups() >= before+len(changes) })
	w.changedTimes("the next agent", al, 3)
	if got := w.logins(); got != logins {
		t.Errorf("%d logins of an agent that was away for a moment", got-logins)
	}

	if out, err := harness.Command(t, w.a, "alloc", "pause", "-state=pause", al.ID, "restart"); err != nil {
		t.Fatalf("alloc pause: %v\n%s", err, out)
	}
	state := func() *api.TaskState { return w.alloc("modes", al.ID).TaskStates["restart"] }
	harness.Within(t, harness.Patience, "the task is paused", func() bool { return state().State == "pending" })
	w.v.Lost(w.token(al, "restart"))
	logins = w.logins()
	harness.Within(t, harness.Patience, "a new login", func() bool { return w.logins() > logins })
	before = w.renewals()
	harness.Within(t, harness.Patience, "renewals", func() bool { return w.renewals() >= before+len(changes) })
	if s := state(); s.State != "pending" || w.printed(al, "restart", "same") != 4 {
		t.Errorf("a paused task is %s after a new login", s.State)
	}
	if out, err := harness.Command(t, w.a, "alloc", "pause", "-state=run", al.ID, "restart"); err != nil {
		t.Fatalf("alloc pause: %v\n%s", err, out)
	}
	harness.Within(t, harness.Patience, "the resumed task has a token", func() bool {
		return w.printed(al, "restart", "same") == 5 && w.works(al, "restart")
	})
	harness.StopAndWait(t, w.a, "modes", 1)
	w.none()
}
