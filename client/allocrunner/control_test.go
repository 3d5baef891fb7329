package allocrunner_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

func TestRestartAndSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alloc := allocation(nomad.JobTypeService, mockTask("a", lasts("100s")), mockTask("b", lasts("100s")))
		r, _, ended := w.started(alloc)
		if err := r.Restart(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := r.Restart(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		states := r.States()
		if states["a"].Restarts != 2 || states["b"].Restarts != 1 {
			t.Errorf("restarts = %d, %d; want 2, 1 although the policy allows none", states["a"].Restarts, states["b"].Restarts)
		}
		if states["a"].State != nomad.TaskStateRunning || r.State().ClientStatus != nomad.AllocClientStatusRunning {
			t.Errorf("state = %s, %s; want running", states["a"].State, r.State().ClientStatus)
		}

		if err := r.Signal("a", "SIGUSR1"); err != nil {
			t.Error(err)
		}
		if !hasEvent(r.States()["a"], nomad.TaskSignaling) || hasEvent(r.States()["b"], nomad.TaskSignaling) {
			t.Error("want the event of the signal for task a only")
		}
		var coded *apierror.Coded
		if err := r.Signal("b", "SIGNOPE"); !errors.As(err, &coded) || coded.Code != 400 {
			t.Errorf("Signal(SIGNOPE) = %v, want a 400", err)
		}
		if hasEvent(r.States()["b"], nomad.TaskSignaling) {
			t.Error("a signal was sent for an unknown name")
		}
		if err := r.Signal("nope", "SIGHUP"); !errors.Is(err, allocrunner.ErrNoTask) {
			t.Errorf("Signal() of an unknown task = %v, want ErrNoTask", err)
		}
		if err := r.Restart(t.Context(), "nope"); !errors.Is(err, allocrunner.ErrNoTask) {
			t.Errorf("Restart() of an unknown task = %v, want ErrNoTask", err)
		}

		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Restart(t.Context(), ""); !errors.Is(err, taskrunner.ErrNotRunning) {
			t.Errorf("Restart() of a finished allocation = %v, want ErrNotRunning", err)
		}
		if err := r.Signal("a", "SIGHUP"); !errors.Is(err, taskrunner.ErrNotRunning) {
			t.Errorf("Signal() of a finished allocation = %v, want ErrNotRunning", err)
		}
		<-ended
	})
}

// TestRestartAll checks that finished tasks run again, in order.
func TestRestartAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, _, ended := w.started(allocation(nomad.JobTypeBatch,
			during(mockTask("pre", lasts("2s")), pre, false), mockTask("main", lasts("10s")), mockTask("short", lasts("1s"))))
		time.Sleep(4 * time.Second)
		synctest.Wait()
		start := time.Now()
		if err := r.RestartAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		want := map[string]span{"pre": {0, 2}, "main": {2, 12}, "short": {2, 3}}
		for name, have := range spans(start, r.States()) {
			if have != want[name] {
				t.Errorf("task %s ran again %v, want %v", name, have, want[name])
			}
		}
		if s := r.State(); s.ClientStatus != nomad.AllocClientStatusComplete || s.TaskStates["pre"].Restarts != 1 ||
			s.TaskStates["main"].Restarts != 1 {
			t.Errorf("status %s, restarts %d and %d; want complete, 1 and 1", s.ClientStatus,
				s.TaskStates["pre"].Restarts, s.TaskStates["main"].Restarts)
		}
		if err := r.RestartAll(t.Context()); !errors.Is(err, taskrunner.ErrNotRunning) {
			t.Errorf("RestartAll() of a finished allocation = %v, want ErrNotRunning", err)
		}
		if err := r.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRestartDuringTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		task := mockTask("a", fails("1s"))
		task.RestartPolicy.Attempts, task.RestartPolicy.Interval, task.RestartPolicy.Delay = 1, time.Hour, time.Minute
		r, _, ended := w.started(allocation(nomad.JobTypeService, task))
		start := time.Now()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := r.States()["a"]; s.State != nomad.TaskStatePending {
			t.Fatalf("state = %s, want pending during the delay", s.State)
		}
		if err := r.Restart(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("over after %v, want 3s: a restart ends the delay", took)
		}
		if got := r.State(); got.ClientStatus != nomad.AllocClientStatusFailed || got.TaskStates["a"].Restarts != 1 {
			t.Errorf("status %s, restarts %d; want failed, 1", got.ClientStatus, got.TaskStates["a"].Restarts)
		}
	})
}

func TestKillTimeoutAndDelay(t *testing.T) {
	for _, tc := range []struct {
		name        string
		killTimeout time.Duration
		delay       time.Duration
		noDelay     bool
		took        time.Duration
	}{
		{"its timeout", 4 * time.Second, 0, false, 4 * time.Second},
		{"at most the client's", time.Hour, 0, false, 30 * time.Second},
		{"after the delay", 4 * time.Second, 7 * time.Second, false, 11 * time.Second},
		{"without the delay", 4 * time.Second, 7 * time.Second, true, 4 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				task := mockTask("a", map[string]any{"run_for": "3h", "kill_after": "2h"})
				task.KillTimeout, task.ShutdownDelay = tc.killTimeout, tc.delay
				alloc := allocation(nomad.JobTypeService, task)
				r, _, ended := w.started(alloc)
				start := time.Now()
				stopped := codec.Copy(alloc)
				stopped.DesiredStatus = nomad.AllocDesiredStatusStop
				stopped.DesiredTransition.NoShutdownDelay = &tc.noDelay
				r.Update(stopped)
				<-ended
				if took := time.Since(start); took != tc.took {
					t.Errorf("took %v, want %v", took, tc.took)
				}
				if s := r.States()["a"]; s.Failed || !hasEvent(s, nomad.TaskKilling) || !hasEvent(s, nomad.TaskKilled) {
					t.Errorf("failed %t, events %v", s.Failed, types(s))
				}
			})
		})
	}
}

func TestFailedStarts(t *testing.T) {
	unknown := mockTask("main", nil)
	unknown.Driver = "exec9"
	template := mockTask("main", lasts("1s"))
	template.Templates = []*nomad.Template{{}}
	user := mockTask("main", lasts("1s"))
	user.User = "nobody-of-that-name"
	lent := mockTask("main", lasts("1s"))
	lent.User = "nomad-80001"
	pool := mockTask("main", lasts("1s"))
	pool.User = "80001"
	rejected := mockTask("main", lasts("1s"))
	rejected.Identities = []*nomad.WorkloadIdentity{{Name: "aws"}}
	bridge := allocation(nomad.JobTypeBatch, mockTask("main", lasts("1s")))
	bridge.Job.TaskGroups[0].Networks = nomad.Networks{{Mode: "bridge"}}
	for _, tc := range []struct {
		name  string
		alloc *nomad.Allocation
		want  string
	}{
		{"unknown driver", allocation(nomad.JobTypeBatch, unknown), `driver "exec9"`},
		{"unknown argument", allocation(nomad.JobTypeBatch, mockTask("main", map[string]any{"run_fro": "1s"})), `"run_fro"`},
		{"driver refuses", allocation(nomad.JobTypeBatch, mockTask("main", map[string]any{"start_error": "no way"})), "no way"},
		{"template", allocation(nomad.JobTypeBatch, template), `template with destination "": destination: it is empty`},
		{"unknown user", allocation(nomad.JobTypeBatch, user), "nobody-of-that-name"},
		{"somebody's lent user", allocation(nomad.JobTypeBatch, lent), "nomad-80001"},
		{"somebody's lent uid", allocation(nomad.JobTypeBatch, pool), "80001"},
		{"no identity", allocation(nomad.JobTypeBatch, rejected), "identity not found"},
		{"network mode", bridge, `"bridge"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.rpc = rejecting{}
				start := time.Now()
				got := w.run(tc.alloc)
				if got.ClientStatus != nomad.AllocClientStatusFailed || time.Since(start) != 0 {
					t.Errorf("status %q after %v, want failed at once", got.ClientStatus, time.Since(start))
				}
				if s := got.TaskStates["main"]; !slices.ContainsFunc(s.Events, func(e *nomad.TaskEvent) bool {
					return strings.Contains(e.DisplayMessage, tc.want)
				}) {
					t.Errorf("no event of %v names %s", types(s), tc.want)
				}
			})
		})
	}
}

func TestRecoverableStartIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		task := mockTask("main", map[string]any{"start_error": "later", "start_error_recoverable": true})
		task.RestartPolicy.Attempts, task.RestartPolicy.Interval = 2, time.Hour
		got := w.run(allocation(nomad.JobTypeBatch, task))
		if s := got.TaskStates["main"]; s.Restarts != 2 || !s.Failed {
			t.Errorf("restarts %d, failed %t; want 2, true", s.Restarts, s.Failed)
		}
	})
}

func TestUpdateInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		task := mockTask("main", fails("10s"))
		alloc := allocation(nomad.JobTypeService, task)
		r, _, ended := w.started(alloc)
		next := codec.Copy(alloc)
		next.Job.TaskGroups[0].Tasks[0].KillTimeout = 3 * time.Second
		next.Job.TaskGroups[0].Tasks[0].Config = map[string]any{"run_for": "1h", "kill_after": "2h"}
		r.Update(next)
		if err := r.Restart(t.Context(), ""); err != nil { // runs the new version
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := r.States()["main"]; s.State != nomad.TaskStateRunning {
			t.Errorf("state = %s, want the new version running", s.State)
		}
		start := time.Now()
		noJob := codec.Copy(next)
		noJob.Job, noJob.DesiredStatus = nil, nomad.AllocDesiredStatusStop
		r.Update(noJob)
		<-ended
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("killed after %v, want the new version's 3s", took)
		}
	})
}

func TestDestroyLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alloc := allocation(nomad.JobTypeService, mockTask("main", lasts("1h")))
		if err := w.db.PutAlloc(alloc); err != nil {
			t.Fatal(err)
		}
		r, _, ended := w.started(alloc)
		if err := r.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-ended
		if left, _ := filepath.Glob(filepath.Join(w.dir, "alloc", "*")); len(left) != 0 {
			t.Errorf("left on disk: %v", left)
		}
		if allocs, errs := w.db.Allocs(); len(allocs) != 0 || len(errs) != 0 {
			t.Errorf("left in the state: %d allocations, %v", len(allocs), errs)
		}
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil || strings.Contains(string(mounts), alloc.ID) {
			t.Errorf("left mounted: %v", err)
		}
	})
}
