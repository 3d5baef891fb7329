package crash_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

const crashTasks = 20 // running tasks at the kill

// The agent is killed with running tasks and started again. The same processes continue, none is
// restarted, no log byte is lost. The exit codes of those that ended in the meantime are correct
// and reported within 5 s.
func TestKilledAgentFindsItsTasks(t *testing.T) {
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "raw.hcl")
	harness.WriteFile(t, cfg, "plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n")
	o := cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}}
	a := harness.Start(t, o)
	o.HTTP, o.RPC, o.Serf = a.HTTP, a.RPC, a.Serf

	gate := filepath.Join(dir, "gate")
	for i := range crashTasks {
		if _, _, err := a.Client.Jobs().Register(harness.CountingJob(i, gate), nil); err != nil {
			t.Fatalf("Register(%d) = %v", i, err)
		}
	}
	before := runningPids(t, a)
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, gate, "") // the waiting tasks end now, without an agent
	harness.WaitGone(t, before[:harness.CountingEnded])

	b := harness.Start(t, o)
	back := time.Now()
	for i := range crashTasks {
		alloc := harness.OnlyAlloc(t, b, harness.CountingID(i))
		if i < harness.CountingEnded {
			checkEnded(t, b, alloc, i, back)
			continue
		}
		if got := harness.PID(t, b, alloc); got != before[i] {
			t.Errorf("task %d is process %s, was %s", i, got, before[i])
		}
	}
	for i := range crashTasks {
		alloc := harness.OnlyAlloc(t, b, harness.CountingID(i))
		if n := alloc.TaskStates["t"].Restarts; n != 0 {
			t.Errorf("task %d was restarted %d times", i, n)
		}
		checkLog(t, b, alloc, i)
		if _, _, err := b.Client.Jobs().Deregister(harness.CountingID(i), true, nil); err != nil {
			t.Error(err)
		}
	}
	harness.WaitCollected(t, b, filepath.Join(dir, "data"))
}

// runningPids waits until every task runs and returns their process IDs.
func runningPids(t *testing.T, a *cluster.Agent) []string {
	t.Helper()
	var out []string
	for i := range crashTasks {
		harness.Within(t, 20*time.Second, "an allocation of "+harness.CountingID(i), func() bool {
			allocs, _, err := a.Client.Jobs().Allocations(harness.CountingID(i), true, nil)
			return err == nil && len(allocs) == 1 && allocs[0].ClientStatus == api.AllocClientStatusRunning
		})
		out = append(out, harness.PID(t, a, harness.OnlyAlloc(t, a, harness.CountingID(i))))
	}
	return out
}

func checkEnded(t *testing.T, a *cluster.Agent, alloc *api.AllocationListStub, i int, back time.Time) {
	t.Helper()
	harness.Within(t, time.Until(back.Add(5*time.Second)), fmt.Sprintf("the end of task %d is reported", i), func() bool {
		return harness.OnlyAlloc(t, a, harness.CountingID(i)).ClientStatus == api.AllocClientStatusFailed
	})
	for _, ev := range harness.OnlyAlloc(t, a, harness.CountingID(i)).TaskStates["t"].Events {
		if ev.Type == api.TaskTerminated {
			if want := fmt.Sprint(10 + i); ev.Details["exit_code"] != want {
				t.Errorf("task %d ended with exit code %s, want %s", i, ev.Details["exit_code"], want)
			}
			return
		}
	}
	t.Errorf("task %d has no event %q", i, api.TaskTerminated)
}

// checkLog searches for a gap in the numbered lines.
func checkLog(t *testing.T, a *cluster.Agent, alloc *api.AllocationListStub, i int) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(harness.Log(a, alloc)), "\n")[1:]
	for n, l := range lines {
		if want := fmt.Sprintf("line %d", n); l != want {
			t.Fatalf("line %d of task %d is %q, want %q", n, i, l, want)
		}
	}
	if len(lines) == 0 {
		t.Errorf("task %d has written nothing", i)
	}
}
