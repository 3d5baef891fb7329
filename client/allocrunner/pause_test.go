package allocrunner_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// The clock of a synctest bubble starts at 2000-01-01 00:00:00 UTC.
func nightly(t *nomad.Task, start, end string) *nomad.Task {
	t.Schedule = &nomad.TaskSchedule{Cron: &nomad.TaskScheduleCron{Start: start, End: end, Timezone: "UTC"}}
	return t
}

// begun runs an allocation in the background.
func (w *world) begun(ctx context.Context, alloc *nomad.Allocation) (*allocrunner.Runner, <-chan error) {
	r := w.runner(alloc)
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, done
}

// expectTask checks the state of the task main and the status of the allocation, once all goroutines wait.
func expectTask(t *testing.T, r *allocrunner.Runner, state string, paused nomad.TaskScheduleState) {
	t.Helper()
	synctest.Wait()
	got := r.States()["main"]
	if got.State != state || got.Paused != paused {
		for _, e := range got.Events {
			t.Logf("%s: %s", e.Type, e.DisplayMessage)
		}
		t.Fatalf("at %s the task is %s, %q, want %s, %q", time.Now().UTC().Format("15:04:05"), got.State, got.Paused, state, paused)
	}
	if status := r.State().ClientStatus; status != nomad.AllocClientStatusRunning {
		t.Errorf("the allocation is %s, want running", status)
	}
}

func events(r *allocrunner.Runner) (types []string) {
	for _, e := range r.States()["main"].Events {
		types = append(types, e.Type)
	}
	return types
}

func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		task := nightly(mockTask("main", lasts("1000h")), "0 2 * * * *", "0 4") // no restart is allowed
		r, done := w.begun(t.Context(), allocation(nomad.JobTypeService, task))
		at := func(hour time.Duration) {
			time.Sleep(time.Until(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(hour * time.Hour).Add(time.Second * 5)))
		}
		at(1)
		expectTask(t, r, nomad.TaskStatePending, nomad.TaskScheduleStateSchedPause)
		if !r.States()["main"].StartedAt.IsZero() {
			t.Error("the task has started outside of its schedule")
		}
		at(2)
		expectTask(t, r, nomad.TaskStateRunning, nomad.TaskScheduleStateRun)
		at(4)
		expectTask(t, r, nomad.TaskStatePending, nomad.TaskScheduleStateSchedPause)
		at(26)
		expectTask(t, r, nomad.TaskStateRunning, nomad.TaskScheduleStateRun)
		if s := r.States()["main"]; s.Restarts != 0 || s.Failed {
			t.Errorf("restarts = %d, failed = %v: a pause is not a failure", s.Restarts, s.Failed)
		}
		want := []string{nomad.TaskReceived, nomad.TaskPausing, nomad.TaskRunning, nomad.TaskStarted, nomad.TaskPausing,
			nomad.TaskKilling, nomad.TaskTerminated, nomad.TaskRunning, nomad.TaskStarted}
		got := slices.DeleteFunc(events(r), func(e string) bool { return !slices.Contains(want, e) })
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A user pauses and runs a task against its schedule, across restarts of the agent, until the schedule applies again.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alloc := allocation(nomad.JobTypeService, nightly(mockTask("main", lasts("1000h")), "0 0 * * * *", "0 4"))
		ctx, shutdown := context.WithCancel(t.Context())
		r, done := w.begun(ctx, alloc)
		pause := func(s nomad.TaskScheduleState) {
			t.Helper()
			if err := r.Pause("main", s); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second) // the kill timeout
		}
		time.Sleep(time.Second)
		expectTask(t, r, nomad.TaskStateRunning, nomad.TaskScheduleStateRun)
		pause(nomad.TaskScheduleStateForcePause)
		expectTask(t, r, nomad.TaskStatePending, nomad.TaskScheduleStateForcePause)
		shutdown()
		<-done

		ctx, shutdown = context.WithCancel(t.Context())
		defer shutdown()
		r = w.runner(alloc)
		if err := r.Restore(); err != nil {
			t.Fatal(err)
		}
		done2 := make(chan error, 1)
		go func() { done2 <- r.Run(ctx) }()
		time.Sleep(time.Hour)
		expectTask(t, r, nomad.TaskStatePending, nomad.TaskScheduleStateForcePause)
		pause(nomad.TaskScheduleStateForceRun)
		expectTask(t, r, nomad.TaskStateRunning, nomad.TaskScheduleStateForceRun)
		time.Sleep(6 * time.Hour) // outside of the schedule
		expectTask(t, r, nomad.TaskStateRunning, nomad.TaskScheduleStateForceRun)
		pause(nomad.TaskScheduleStateSchedResume)
		expectTask(t, r, nomad.TaskStatePending, nomad.TaskScheduleStateSchedPause)

		// An update in place without a schedule runs the task.
		next := codec.Copy(alloc)
		next.Job.TaskGroups[0].Tasks[0].Schedule = nil
		r.Update(next)
		expectTask(t, r, nomad.TaskStateRunning, nomad.TaskScheduleStateRun)
		pause(nomad.TaskScheduleStateForcePause)
		expectTask(t, r, nomad.TaskStatePending, nomad.TaskScheduleStateForcePause)
		if err := r.Pause("other", nomad.TaskScheduleStateForcePause); err == nil {
			t.Error("an unknown task was paused")
		}
		// A paused task is stopped at once.
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-done2
		if s := r.State(); s.ClientStatus != nomad.AllocClientStatusComplete || s.TaskStates["main"].Failed {
			t.Errorf("the stopped allocation is %s", s.ClientStatus)
		}
		if err := r.Pause("main", nomad.TaskScheduleStateForceRun); err == nil {
			t.Error("a dead task was resumed")
		}
	})
}

// The window closes while the agent is down: the next agent stops the task.
func TestScheduleEndsWithoutAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alloc := allocation(nomad.JobTypeService, nightly(mockTask("main", lasts("1000h")), "0 0 * * * *", "0 4"))
		ctx, shutdown := context.WithCancel(t.Context())
		r, done := w.begun(ctx, alloc)
		time.Sleep(time.Second)
		expectTask(t, r, nomad.TaskStateRunning, nomad.TaskScheduleStateRun)
		shutdown()
		<-done
		time.Sleep(5 * time.Hour)
		r = w.runner(alloc)
		if err := r.Restore(); err != nil {
			t.Fatal(err)
		}
		again := make(chan error, 1)
		go func() { again <- r.Run(t.Context()) }()
		time.Sleep(2 * time.Second)
		expectTask(t, r, nomad.TaskStatePending, nomad.TaskScheduleStateSchedPause)
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-again
	})
}

// A deployment does not wait for the schedule of a task.
func TestPausedTaskIsHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alloc := allocation(nomad.JobTypeService, nightly(mockTask("main", lasts("1000h")), "0 12 * * * *", "0 13"))
		alloc.DeploymentID = nomad.NewID()
		alloc.Job.TaskGroups[0].Update = &nomad.UpdateStrategy{MinHealthyTime: 10 * time.Second, HealthyDeadline: time.Minute,
			HealthCheck: nomad.UpdateStrategyHealthCheck_TaskStates}
		r, done := w.begun(t.Context(), alloc)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if d := r.State().DeploymentStatus; d == nil || d.Healthy == nil || !*d.Healthy {
			t.Errorf("health %+v of an allocation outside of its schedule, want healthy", d)
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-done
	})
}

// The checks that a paused task cannot answer do not make its deployment wait, whether they are of its services or of the
// group. They count again when the task runs, and a task that is not paused has to answer its own.
func TestChecksOfAPausedTask(t *testing.T) {
	group := func(a *nomad.Allocation) {
		a.Job.TaskGroups[0].Services[0].Checks = a.Job.TaskGroups[0].Tasks[0].Services[0].Checks
		a.Job.TaskGroups[0].Tasks[0].Services[0].Checks = nil
	}
	sidecar := func(a *nomad.Allocation) {
		tg := a.Job.TaskGroups[0]
		other := during(mockTask("other", lasts("1000h")), nomad.TaskLifecycleHookPrestart, true)
		other.Services, tg.Tasks[0].Services = tg.Tasks[0].Services, nil
		tg.Tasks = append(tg.Tasks, other)
	}
	for name, c := range map[string]struct {
		change func(*nomad.Allocation)
		run    bool // the task is run against its schedule
		want   bool
	}{
		"check of the task":          {func(*nomad.Allocation) {}, false, true},
		"check of the group":         {group, false, true},
		"check of another task":      {sidecar, false, false},
		"check of the task, run":     {func(*nomad.Allocation) {}, true, false},
		"check of the group, run":    {group, true, false},
		"check of another task, run": {sidecar, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *served) {
				alloc := offering(probe(nil))
				nightly(alloc.Job.TaskGroups[0].Tasks[0], "0 12 * * * *", "0 13")
				c.change(alloc)
				alloc.DeploymentID = "d1"
				alloc.Job.TaskGroups[0].Update = &nomad.UpdateStrategy{HealthCheck: "checks", MinHealthyTime: 10 * time.Second,
					HealthyDeadline: time.Minute}
				s.code.Store(2)
				r, _, ended := s.started(alloc)
				if c.run {
					if err := r.Pause("main", nomad.TaskScheduleStateForceRun); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute + time.Second)
				if d := r.State().DeploymentStatus; d == nil || d.Healthy == nil || *d.Healthy != c.want {
					t.Errorf("health = %+v, want %t", d, c.want)
				}
				r.Update(stopping(alloc))
				<-ended
			})
		})
	}
}

// A check of the group restarts all running tasks, but not because a paused task does not answer it. It is watched again,
// with its grace, when the task runs.
func TestCheckRestartOfAGroupWhilePaused(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		c := probe(&nomad.CheckRestart{Limit: 1, Grace: 15 * time.Second})
		c.TaskName = "main"
		alloc := offering()
		group := alloc.Job.TaskGroups[0]
		group.Services[0].Checks = []*nomad.ServiceCheck{c}
		group.Tasks = append(group.Tasks, mockTask("other", lasts("1000h")))
		for _, task := range group.Tasks {
			task.RestartPolicy.Attempts, task.RestartPolicy.Interval = 5, time.Hour
		}
		r, _, ended := s.started(alloc)
		time.Sleep(time.Minute)
		if err := r.Pause("main", nomad.TaskScheduleStateForcePause); err != nil {
			t.Error(err)
		}
		s.code.Store(2)
		time.Sleep(time.Hour)
		if got := r.States()["other"].Restarts; got != 0 {
			t.Errorf("%d restarts of the other task while one is paused", got)
		}
		if err := r.Pause("main", nomad.TaskScheduleStateForceRun); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		if got := r.States()["other"].Restarts; got != 0 {
			t.Errorf("%d restarts of the other task within the grace", got)
		}
		time.Sleep(20 * time.Second)
		if a, b := r.States()["main"].Restarts, r.States()["other"].Restarts; a == 0 || b == 0 {
			t.Errorf("restarts = %d, %d after the grace, want some of each", a, b)
		}
		r.Update(stopping(alloc))
		<-ended
	})
}

// An acknowledged pause is on the disk: an agent that is killed at once does not lose it.
func TestPauseIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alloc := allocation(nomad.JobTypeService, mockTask("main", lasts("1000h")))
		r, done := w.begun(t.Context(), alloc)
		time.Sleep(time.Second)
		for _, s := range []nomad.TaskScheduleState{nomad.TaskScheduleStateForcePause, nomad.TaskScheduleStateForceRun} {
			if err := r.Pause("main", s); err != nil {
				t.Fatal(err)
			}
			stored, err := w.db.Tasks(alloc.ID)
			if err != nil {
				t.Fatal(err)
			}
			if got := stored["main"].State; got == nil || got.Paused != s {
				t.Errorf("stored state %+v, want %q", got, s)
			}
			time.Sleep(2 * time.Second)
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-done
	})
}
