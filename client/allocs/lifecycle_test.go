package allocs_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/nomad"
)

func TestSet_RunsToItsEnd(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	good, bad := clienttest.Alloc(map[string]any{"run_for": "10ms"}), clienttest.Alloc(map[string]any{"run_for": "10ms", "exit_code": 3})
	f.Place(good)
	f.Place(bad)
	<-n.Ready()
	f.Until(t, "both are terminal", func() bool {
		return f.Status(good) == nomad.AllocClientStatusComplete && f.Status(bad) == nomad.AllocClientStatusFailed
	})
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if ts := f.Updated[bad.ID].TaskStates["main"]; ts == nil || !ts.Failed || ts.State != nomad.TaskStateDead {
		t.Errorf("task state = %+v", ts)
	}
}

// Statuses are sent again until the servers accept them.
func TestSet_StatusIsSentUntilAccepted(t *testing.T) {
	f := clienttest.StartServer(t)
	f.FailUpdate = 3
	clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "10ms"})
	f.Place(a)
	f.Until(t, "the end is reported", func() bool { return f.Status(a) == nomad.AllocClientStatusComplete })
}

func TestSet_Stop(t *testing.T) {
	f := clienttest.StartServer(t)
	clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	stopped := *a
	stopped.DesiredStatus = nomad.AllocDesiredStatusStop
	f.Place(&stopped)
	f.Until(t, "the allocation is complete", func() bool { return f.Status(a) == nomad.AllocClientStatusComplete })
}

// An allocation that is stopped before the node pulls it is reported as complete and never
// runs.
func TestSet_StoppedBeforePulled(t *testing.T) {
	f := clienttest.StartServer(t)
	dir := clienttest.Dir(t)
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	a.DesiredStatus = nomad.AllocDesiredStatusStop
	f.Place(a)
	n := clienttest.Start(t, clienttest.Config(dir, f.Addr()))
	f.Until(t, "the allocation is complete", func() bool { return f.Status(a) == nomad.AllocClientStatusComplete })
	if n.HasAlloc(a.ID) {
		t.Error("the allocation was started")
	}
}

// An allocation that the servers no longer list is stopped and removed.
func TestSet_UnlistedIsRemoved(t *testing.T) {
	f := clienttest.StartServer(t)
	dir := clienttest.Dir(t)
	n := clienttest.Start(t, clienttest.Config(dir, f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	f.Edit(func() { delete(f.Allocs, a.ID) })
	f.Until(t, "the allocation is gone", func() bool { return !n.HasAlloc(a.ID) })
	if _, err := os.Stat(filepath.Join(dir, "alloc", a.ID)); !os.IsNotExist(err) {
		t.Errorf("allocation directory: %v", err)
	}
}

// An agent was killed after it had created the directories of allocations, and before it stored them. The next one starts
// the allocation that still must run, with the data that it has. It removes the directories of the others: the servers have
// stopped one and no longer list the other.
func TestSet_UncommittedIsRemoved(t *testing.T) {
	f := clienttest.StartServer(t)
	dir := clienttest.Dir(t)
	listed, stopped, deleted := clienttest.Alloc(map[string]any{"run_for": "1h"}), clienttest.Alloc(nil), clienttest.Alloc(nil)
	stopped.DesiredStatus = nomad.AllocDesiredStatusStop
	for _, a := range []*nomad.Allocation{listed, stopped, deleted} {
		write(t, filepath.Join(dir, "client", "uncommitted", a.ID))
		write(t, filepath.Join(dir, "alloc", a.ID, "alloc", "data", "moved"))
	}
	f.Place(listed)
	f.Place(stopped)
	clienttest.Start(t, clienttest.Config(dir, f.Addr()))
	f.Until(t, "the listed allocation runs", func() bool { return f.Status(listed) == nomad.AllocClientStatusRunning })
	for _, a := range []*nomad.Allocation{stopped, deleted} {
		f.Until(t, "the directory of another is removed", func() bool {
			_, err := os.Stat(filepath.Join(dir, "alloc", a.ID))
			return os.IsNotExist(err)
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "alloc", listed.ID, "alloc", "data", "moved")); err != nil {
		t.Errorf("data of the listed allocation: %v", err)
	}
	f.Until(t, "nothing is uncommitted", func() bool {
		left, err := os.ReadDir(filepath.Join(dir, "client", "uncommitted"))
		return err == nil && len(left) == 0
	})
}

// write creates an empty file and its directories.
func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A restarted agent recovers its tasks without a restart, and reports the end of a task that
// exited meanwhile.
func TestSet_RecoversTasks(t *testing.T) {
	f := clienttest.StartServer(t)
	dir := clienttest.Dir(t)
	n := clienttest.Start(t, clienttest.Config(dir, f.Addr()))
	long := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(long)
	f.Until(t, "the long allocation runs", func() bool { return f.Status(long) == nomad.AllocClientStatusRunning })
	begun := func() time.Time { return f.Updated[long.ID].TaskStates["main"].StartedAt }
	f.Mu.Lock()
	first := begun()
	f.Mu.Unlock()
	var short *nomad.Allocation
	for runs := time.Second; ; runs *= 3 { // on a busy machine the task may exit before the agent
		short = clienttest.Alloc(map[string]any{"run_for": runs.String(), "exit_code": 4})
		f.Place(short)
		f.Until(t, "the short allocation has started", func() bool {
			return f.Status(short) == nomad.AllocClientStatusRunning || f.Status(short) == nomad.AllocClientStatusFailed
		})
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		f.Mu.Lock()
		sent := f.Status(short)
		f.Mu.Unlock()
		if sent == nomad.AllocClientStatusRunning {
			break
		}
		n = clienttest.Start(t, clienttest.Config(dir, f.Addr()))
		<-n.Ready()
	}
	f.Mu.Lock()
	clear(f.Updated)
	f.Mu.Unlock()
	clienttest.Start(t, clienttest.Config(dir, f.Addr()))
	f.Until(t, "the short allocation has failed", func() bool { return f.Status(short) == nomad.AllocClientStatusFailed })
	f.Until(t, "the long allocation runs", func() bool { return f.Status(long) == nomad.AllocClientStatusRunning })
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if !begun().Equal(first) || f.Updated[long.ID].TaskStates["main"].Restarts != 0 {
		t.Errorf("the long task was restarted: %v, then %v", first, begun())
	}
	if e := f.Updated[short.ID].TaskStates["main"].Events; !slices.ContainsFunc(e,
		func(e *nomad.TaskEvent) bool { return e.Details["exit_code"] == "4" }) {
		t.Error("the exit code is not reported")
	}
}
