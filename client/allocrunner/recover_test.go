package allocrunner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// offline is a mock driver whose RecoverTask fails until back is set.
type offline struct {
	*mock.Driver
	back   atomic.Bool
	starts atomic.Int32
	hangs  bool // RecoverTask waits for its context
}

var errOffline = errors.New("connect to the supervisor: connection refused")

func (d *offline) StartTask(ctx context.Context, cfg *drivers.TaskConfig) (*drivers.TaskHandle, error) {
	d.starts.Add(1)
	return d.Driver.StartTask(ctx, cfg)
}

func (d *offline) RecoverTask(ctx context.Context, h *drivers.TaskHandle) error {
	switch {
	case d.back.Load():
		return d.Driver.RecoverTask(ctx, h)
	case d.hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	return errOffline
}

func (d *offline) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	if !d.back.Load() {
		return errOffline
	}
	return d.Driver.StopTask(ctx, id, timeout, signal)
}

func (d *offline) DestroyTask(id string, force bool) error {
	if !d.back.Load() {
		return errOffline
	}
	return d.Driver.DestroyTask(id, force)
}

// offline returns a new agent whose driver fails to recover tasks.
func (w *world) offline() (*world, *offline) {
	driver := &offline{}
	w.driver = func(d *mock.Driver) drivers.Driver { driver.Driver = d; return driver }
	return w.agent(), driver
}

// restored runs an allocation of an earlier agent.
func (w *world) restored(alloc *nomad.Allocation) (*allocrunner.Runner, context.CancelFunc, <-chan error) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	r, ended := w.runner(alloc), make(chan error, 1)
	if err := r.Restore(); err != nil {
		w.t.Fatal(err)
	}
	go func() { ended <- r.Run(ctx) }()
	return r, cancel, ended
}

// A failed recovery is retried, with one event. The task is never started a second time.
func TestRecoveryIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alloc := allocation(nomad.JobTypeBatch, mockTask("main", map[string]any{"run_for": "5m", "exit_code": 3}))
		start := time.Now()
		_, shutdown, ended := w.started(alloc)
		shutdown()
		<-ended

		next, driver := w.offline()
		r, _, ended := next.restored(alloc)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		s := r.States()["main"]
		if s.State != nomad.TaskStateRunning || count(s, nomad.TaskRestoreFailed) != 1 {
			t.Errorf("state %s, events %v; want running and one event about the recovery", s.State, types(s))
		}
		if got := r.State().ClientStatus; got != nomad.AllocClientStatusRunning {
			t.Errorf("status = %q, want running", got)
		}
		driver.back.Store(true)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		s = r.States()["main"]
		if got := spans(start, r.States())["main"]; got != (span{0, 300}) || driver.starts.Load() != 0 {
			t.Errorf("task ran %v with %d further starts, want 0 to 300 and none", got, driver.starts.Load())
		}
		if exitCode(s) != 3 || s.Restarts != 0 {
			t.Errorf("exit code %d, %d restarts; want 3 and none", exitCode(s), s.Restarts)
		}
	})
}

// A driver that does not answer is reported after 2 seconds, once, long before the call ends.
func TestSilentRecoveryIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alloc := allocation(nomad.JobTypeService, mockTask("main", lasts("1h")))
		_, shutdown, ended := w.started(alloc)
		shutdown()
		<-ended
		next, driver := w.offline()
		driver.hangs = true
		r, shutdown, ended := next.restored(alloc)
		failures := func() int { return count(r.States()["main"], nomad.TaskRestoreFailed) }
		time.Sleep(1900 * time.Millisecond)
		if n := failures(); n != 0 {
			t.Errorf("%d events before 2s", n)
		}
		time.Sleep(200 * time.Millisecond)
		if n := failures(); n != 1 {
			t.Errorf("%d events after 2s, want 1", n)
		}
		time.Sleep(time.Minute)
		if n := failures(); n != 1 {
			t.Errorf("%d events after two calls, want 1", n)
		}
		driver.back.Store(true)
		if err := r.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		<-ended
		shutdown()
		time.Sleep(time.Hour) // the task of the first agent ends
	})
}

// An agent that stops during a recovery leaves the handle and the state unchanged.
func TestShutdownDuringRecovery(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			alloc := allocation(nomad.JobTypeBatch, mockTask("main", lasts("5m")))
			start := time.Now()
			_, shutdown, ended := w.started(alloc)
			shutdown()
			<-ended
			before := w.stored(alloc)

			next, driver := w.offline()
			driver.hangs = hangs
			_, shutdown, ended = next.restored(alloc)
			time.Sleep(10 * time.Second)
			shutdown()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Fatalf("Run() = %v, want the context's error", err)
			}
			after := w.stored(alloc)
			if after.Local.TaskHandle == nil || after.Local.TaskHandle.TaskID != before.Local.TaskHandle.TaskID ||
				after.State.State != nomad.TaskStateRunning || after.Local.RunComplete {
				t.Errorf("stored: handle %+v, state %s; want them unchanged", after.Local.TaskHandle, after.State.State)
			}

			w.driver = nil
			r, _, ended := w.agent().restored(alloc)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if got := spans(start, r.States())["main"]; got != (span{0, 300}) {
				t.Errorf("task ran %v, want 0 to 300: one process", got)
			}
		})
	}
}

// A task that is stopped while its driver is away is dead only when the driver has ended it.
func TestStopDuringRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alloc := allocation(nomad.JobTypeBatch, mockTask("main", lasts("5m")))
		start := time.Now()
		_, shutdown, ended := w.started(alloc)
		shutdown()
		<-ended

		next, driver := w.offline()
		r, _, ended := next.restored(alloc)
		time.Sleep(10 * time.Second)
		stopped := codec.Copy(alloc)
		stopped.DesiredStatus = nomad.AllocDesiredStatusStop
		r.Update(stopped)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.State().ClientStatus; got != nomad.AllocClientStatusRunning {
			t.Errorf("status = %q while no driver can end the process, want running", got)
		}
		driver.back.Store(true)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		s := r.States()["main"]
		if took := s.FinishedAt.Sub(start); took >= 2*time.Minute || !hasEvent(s, nomad.TaskKilled) || s.Failed {
			t.Errorf("over after %v, failed %t, events %v; want it killed soon after the driver is back", took, s.Failed, types(s))
		}
		if err := r.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Minute) // the first agent's task ends
	})
}

// A stored start is not repeated while the driver cannot recover it.
func TestRecoveryOfAStoredStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alloc := allocation(nomad.JobTypeBatch, mockTask("main", lasts("1s")))
		err := w.db.PutTask(alloc.ID, "main", state.Task{
			Local: &state.LocalState{TaskHandle: &drivers.TaskHandle{Driver: mock.Name, TaskID: alloc.ID + "/main/0"}},
			State: &nomad.TaskState{State: nomad.TaskStatePending},
		})
		if err != nil {
			t.Fatal(err)
		}
		next, driver := w.offline()
		_, shutdown, ended := next.restored(alloc)
		time.Sleep(time.Minute)
		if n := driver.starts.Load(); n != 0 {
			t.Errorf("%d starts while the driver is away, want none", n)
		}
		shutdown()
		<-ended
	})
}

// A failed allocation is terminal only when its process has ended. An agent that stops before
// that leaves the handle to the next one.
func TestFailedAllocationEndsItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alloc := allocation(nomad.JobTypeBatch, mockTask("main", lasts("10m")))
		_, shutdown, ended := w.started(alloc)
		shutdown()
		<-ended

		alloc.Job.TaskGroups[0].Networks = []*nomad.NetworkResource{{Mode: "bridge"}} // fails the network hook
		next, _ := w.offline()
		r, shutdown, ended := next.restored(alloc)
		time.Sleep(time.Minute)
		if got := r.State().ClientStatus; got != nomad.AllocClientStatusRunning {
			t.Errorf("status = %q while no driver can end the process, want running", got)
		}
		shutdown()
		<-ended
		if kept := w.stored(alloc); kept.Local.TaskHandle == nil || kept.Local.RunComplete {
			t.Errorf("stored: %+v, want the handle", kept.Local)
		}

		next, driver := w.offline()
		r, _, ended = next.restored(alloc)
		time.Sleep(time.Minute)
		driver.back.Store(true)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if got := r.State().ClientStatus; got != nomad.AllocClientStatusFailed {
			t.Errorf("status = %q, want failed", got)
		}
		if kept := w.stored(alloc); kept.Local.TaskHandle != nil || !kept.Local.RunComplete {
			t.Errorf("stored: %+v, want the end", kept.Local)
		}
		secrets := filepath.Join(w.dir, "alloc", alloc.ID, "main/secrets")
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil || strings.Contains(string(mounts), " "+secrets+" ") {
			t.Errorf("the secrets of the task are still mounted (%v): its stop hooks did not run", err)
		}
		if err := r.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Minute) // the first agent's task ends
	})
}

// A handle of another version cannot be read: the process keeps running, and can be stopped.
func TestHandleOfAnotherVersion(t *testing.T) {
	for _, driver := range []string{rawexec.Name, exec2.Name} {
		t.Run(driver, func(t *testing.T) {
			w := processes(t)
			alloc := sized(allocation(nomad.JobTypeBatch, script("main", driver, `echo up; exec sleep 600`)))
			alloc.Job.TaskGroups[0].Tasks[0].RestartPolicy.Attempts = 3
			ctx, shutdown := context.WithCancel(t.Context())
			first, ended := w.runner(alloc), make(chan error, 1)
			go func() { ended <- first.Run(ctx) }()
			testpace.Until(t, "the task runs", func() bool { return first.States()["main"].State == nomad.TaskStateRunning })
			shutdown()
			<-ended
			pid := w.pid(alloc)
			kept := w.stored(alloc)
			kept.Local.TaskHandle.Version = 99
			if err := w.db.PutTask(alloc.ID, "main", state.Task{Local: kept.Local}); err != nil {
				t.Fatal(err)
			}

			r, _, over := w.withProcesses().restored(alloc)
			testpace.Until(t, "the event exists", func() bool { return hasEvent(r.States()["main"], nomad.TaskRestoreFailed) })
			if s := r.States()["main"]; s.State != nomad.TaskStateRunning || syscall.Kill(pid, 0) != nil {
				t.Errorf("state %s, process: %v; want it running", s.State, syscall.Kill(pid, 0))
			}
			if err := r.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-over; err != nil {
				t.Fatal(err)
			}
			s := r.States()["main"]
			if err := syscall.Kill(pid, 0); err != syscall.ESRCH || s.Restarts != 0 || s.Failed {
				t.Errorf("process after the stop: %v, %d restarts, failed %t; want it gone, none, false", err, s.Restarts, s.Failed)
			}
		})
	}
}

// Tasks are not lost if the supervisor is unreachable for longer than the connection timeout.
func TestUnreachableSupervisor(t *testing.T) {
	w := processes(t)
	alloc := sized(allocation(nomad.JobTypeBatch, script("main", rawexec.Name, `echo up; exec sleep 600`)))
	alloc.Job.TaskGroups[0].Tasks[0].RestartPolicy.Attempts = 3
	ctx, shutdown := context.WithCancel(t.Context())
	first, ended := w.runner(alloc), make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
	testpace.Until(t, "the task runs", func() bool { return first.States()["main"].State == nomad.TaskStateRunning })
	shutdown()
	<-ended
	pid := w.pid(alloc)
	sock := filepath.Join(w.dir, "supervise", "sock")
	if err := os.Rename(sock, sock+".away"); err != nil {
		t.Fatal(err)
	}

	r, _, over := w.withProcesses().restored(alloc)
	testpace.Until(t, "the event exists", func() bool { return hasEvent(r.States()["main"], nomad.TaskRestoreFailed) })
	if err := os.Rename(sock+".away", sock); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "signals reach the task", func() bool { return r.Signal("main", "SIGCONT") == nil })
	if out := w.file(alloc, "alloc/logs/main.stdout.0"); out != "up\n" || w.pid(alloc) != pid {
		t.Errorf("log = %q, want one start", out)
	}
	if err := r.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-over
}

// stored returns the stored state of the task main.
func (w *world) stored(alloc *nomad.Allocation) state.Task {
	w.t.Helper()
	tasks, err := w.db.Tasks(alloc.ID)
	if err != nil || tasks["main"].Local == nil || tasks["main"].State == nil {
		w.t.Fatalf("Tasks() = %+v, %v", tasks, err)
	}
	return tasks["main"]
}

// pid returns the process ID of the task main.
func (w *world) pid(alloc *nomad.Allocation) int {
	w.t.Helper()
	driver, err := w.set.Driver(alloc.Job.TaskGroups[0].Tasks[0].Driver)
	if err != nil {
		w.t.Fatal(err)
	}
	status, err := driver.InspectTask(w.stored(alloc).Local.TaskHandle.TaskID)
	if err != nil {
		w.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(status.Attributes["pid"]))
	if err != nil {
		w.t.Fatal(err)
	}
	return pid
}

func count(s *nomad.TaskState, kind string) (n int) {
	for _, e := range s.Events {
		if e.Type == kind {
			n++
		}
	}
	return n
}
