package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

const (
	crashTasks = 20 // running tasks at the kill
	crashEnded = 5  // tasks of them that end while there is no agent
)

// The agent is killed with running tasks and started again. The same processes continue, none is
// restarted, no log byte is lost. The exit codes of those that ended in the meantime are correct
// and reported within 5 s.
func TestKilledAgentFindsItsTasks(t *testing.T) {
	dir := tempDir(t)
	cfg := filepath.Join(dir, "raw.hcl")
	write(t, cfg, "plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n")
	o := cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}}
	a := start(t, o)
	o.HTTP, o.RPC, o.Serf = a.HTTP, a.RPC, a.Serf

	gate := filepath.Join(dir, "gate")
	for i := range crashTasks {
		if _, _, err := a.Client.Jobs().Register(countingJob(i, gate), nil); err != nil {
			t.Fatalf("Register(%d) = %v", i, err)
		}
	}
	before := runningPids(t, a)
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	write(t, gate, "") // the waiting tasks end now, without an agent
	waitGone(t, before[:crashEnded])

	b := start(t, o)
	back := time.Now()
	for i := range crashTasks {
		alloc := onlyAlloc(t, b, jobID(i))
		if i < crashEnded {
			checkEnded(t, b, alloc, i, back)
			continue
		}
		if got := pidOf(t, b, alloc); got != before[i] {
			t.Errorf("task %d is process %s, was %s", i, got, before[i])
		}
	}
	for i := range crashTasks {
		alloc := onlyAlloc(t, b, jobID(i))
		if n := alloc.TaskStates["t"].Restarts; n != 0 {
			t.Errorf("task %d was restarted %d times", i, n)
		}
		checkLog(t, b, alloc, i)
		if _, _, err := b.Client.Jobs().Deregister(jobID(i), true, nil); err != nil {
			t.Error(err)
		}
	}
	collected(t, b, filepath.Join(dir, "data"))
}

// collected waits until the node has removed purged allocations.
func collected(t *testing.T, a *cluster.Agent, data string) {
	t.Helper()
	within(t, patience, "the node removes what was purged", func() bool {
		if err := a.Client.System().GarbageCollect(); err != nil {
			t.Error(err)
		}
		left, err := os.ReadDir(filepath.Join(data, "alloc"))
		return err == nil && len(left) == 0
	})
}

func jobID(i int) string { return fmt.Sprintf("crash-%d", i) }

// countingJob counts lines without a gap. The first jobs end with their own exit code when the gate
// exists.
func countingJob(i int, gate string) *api.Job {
	id, kind, cpu, memory, attempts, mode, unlimited := jobID(i), "batch", 1, 10, 0, "fail", false
	script := `echo pid $$; n=0; while true; do echo line $n; n=$((n+1)); sleep 0.05; done`
	if i < crashEnded {
		script = fmt.Sprintf(`echo pid $$; n=0; until [ -e %s ]; do echo line $n; n=$((n+1)); sleep 0.05; done; exit %d`, gate, 10+i)
	}
	return &api.Job{ID: &id, Name: &id, Type: &kind, TaskGroups: []*api.TaskGroup{{Name: &id,
		RestartPolicy:    &api.RestartPolicy{Attempts: &attempts, Mode: &mode},
		ReschedulePolicy: &api.ReschedulePolicy{Attempts: &attempts, Unlimited: &unlimited},
		Tasks: []*api.Task{{Name: "t", Driver: "raw_exec", Privileged: true, Resources: &api.Resources{CPU: &cpu, MemoryMB: &memory},
			Config: map[string]any{"command": "/bin/sh", "args": []string{"-c", script}}}}}}}
}

// within waits for a condition: for the limit, and longer on a busy machine. Time limits of the
// product are measured, not waited for.
func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	testpace.Within(t, max(limit, patience), what, ok)
}

// succeeds calls try until it returns nil. When the time is up, it reports the last error.
func succeeds(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	defer func() {
		if err != nil {
			t.Logf("%s: %v", what, err)
		}
	}()
	within(t, patience, what, func() bool {
		err = try()
		return err == nil
	})
}

func onlyAlloc(t *testing.T, a *cluster.Agent, job string) *api.AllocationListStub {
	t.Helper()
	allocs := allAllocs(t, a, job)
	if len(allocs) != 1 {
		t.Fatalf("job %s has %d allocations, want 1", job, len(allocs))
	}
	return allocs[0]
}

// log returns the output of a task.
func log(a *cluster.Agent, alloc *api.AllocationListStub) string {
	in, err := a.Client.AllocFS().Cat(&api.Allocation{ID: alloc.ID, NodeID: alloc.NodeID, Namespace: alloc.Namespace}, "alloc/logs/t.stdout.0", nil)
	if err != nil {
		return ""
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err != nil {
		return ""
	}
	return string(text)
}

func pidOf(t *testing.T, a *cluster.Agent, alloc *api.AllocationListStub) string {
	t.Helper()
	pid := ""
	within(t, 10*time.Second, "pid of "+alloc.Name, func() bool {
		first, _, ok := strings.Cut(log(a, alloc), "\n")
		pid = strings.TrimPrefix(first, "pid ")
		return ok && pid != ""
	})
	return pid
}

// runningPids waits until every task runs and returns their process IDs.
func runningPids(t *testing.T, a *cluster.Agent) []string {
	t.Helper()
	var out []string
	for i := range crashTasks {
		within(t, 20*time.Second, "an allocation of "+jobID(i), func() bool {
			allocs, _, err := a.Client.Jobs().Allocations(jobID(i), true, nil)
			return err == nil && len(allocs) == 1 && allocs[0].ClientStatus == api.AllocClientStatusRunning
		})
		out = append(out, pidOf(t, a, onlyAlloc(t, a, jobID(i))))
	}
	return out
}

func checkEnded(t *testing.T, a *cluster.Agent, alloc *api.AllocationListStub, i int, back time.Time) {
	t.Helper()
	within(t, time.Until(back.Add(5*time.Second)), fmt.Sprintf("the end of task %d is reported", i), func() bool {
		return onlyAlloc(t, a, jobID(i)).ClientStatus == api.AllocClientStatusFailed
	})
	for _, ev := range onlyAlloc(t, a, jobID(i)).TaskStates["t"].Events {
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
	lines := strings.Split(strings.TrimSpace(log(a, alloc)), "\n")[1:]
	for n, l := range lines {
		if want := fmt.Sprintf("line %d", n); l != want {
			t.Fatalf("line %d of task %d is %q, want %q", n, i, l, want)
		}
	}
	if len(lines) == 0 {
		t.Errorf("task %d has written nothing", i)
	}
}
