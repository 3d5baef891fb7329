package deploy_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/deploy"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

var arrow = regexp.MustCompile(`^(\w+) ──([a-z ]+)──▶ (\w+)`)

// TestDrawing compares the drawing in the package doc with the table of moves.
func TestDrawing(t *testing.T) {
	src, err := os.ReadFile("watcher.go")
	if err != nil {
		t.Fatal(err)
	}
	type move struct{ from, event, to string }
	drawn := map[move]bool{}
	for line := range strings.Lines(string(src)) {
		rest, _ := strings.CutPrefix(line, "//\t")
		for m := arrow.FindStringSubmatch(rest); m != nil; m = arrow.FindStringSubmatch(rest) {
			drawn[move{m[1], m[2], m[3]}] = true
			rest = rest[strings.Index(rest, "▶ ")+len("▶ "):]
		}
	}
	possible := 0
	for _, from := range []string{nomad.DeploymentStatusRunning, nomad.DeploymentStatusPaused, nomad.DeploymentStatusFailed,
		nomad.DeploymentStatusSuccessful, nomad.DeploymentStatusCancelled, nomad.DeploymentStatusBlocked, nomad.DeploymentStatusPending} {
		for _, ev := range []deploy.Event{deploy.Complete, deploy.Unhealthy, deploy.Deadline, deploy.Fail, deploy.Pause, deploy.Resume,
			deploy.Unblock, deploy.Cancel, deploy.Start} {
			to, why, err := deploy.Next(from, ev)
			if err != nil {
				continue
			}
			possible++
			if !drawn[move{from, string(ev), to}] || why == "" {
				t.Errorf("%s ──%s──▶ %s (%q) is not drawn, or has no description", from, ev, to, why)
			}
		}
	}
	if len(drawn) != possible {
		t.Errorf("%d moves are drawn, %d are possible", len(drawn), possible)
	}
}

// admitter returns an Admitter with the built-in drivers.
func admitter() *admission.Admitter {
	return admission.New(admission.Config{Region: "global", Kinds: drivers.Table(), Schemas: schema.NewSet(drivers.Table()),
		OnlyOurs: func(string) error { return nil }})
}

type world struct {
	*testlog.Log
	t    *testing.T
	w    *deploy.Watcher
	node *nomad.Node
	job  *nomad.Job
	id   string // of the deployment
}

// rollout runs fn with a watcher and a deployment of three allocations, of which one is placed.
func rollout(t *testing.T, deadline time.Duration, fn func(w *world, first *nomad.Allocation)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := testlog.New(nil)
		w := &world{Log: l, t: t, node: l.Node(t), id: nomad.NewID()}
		w.job = l.Job(t, nomad.JobTypeService, 3, func(j *nomad.Job) {
			j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Unlimited: true, Delay: 30 * time.Second, DelayFunction: "constant"}
		})
		w.w = deploy.New(deploy.Config{Store: l.Store, Raft: l, Log: slog.New(slog.DiscardHandler), Admission: admitter()})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.w.Run(ctx) }()
		synctest.Wait() // the watcher must notice the deployment
		l.Must(t, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{
			UpdatedAt: time.Now().UnixNano(),
			Deployment: &nomad.Deployment{
				ID: w.id, Namespace: w.job.Namespace, JobID: w.job.ID, JobVersion: w.job.Version, CreateTime: time.Now().UnixNano(),
				Status: nomad.DeploymentStatusRunning, EvalPriority: 60,
				TaskGroups: map[string]*nomad.DeploymentState{"g": {DesiredTotal: 3, ProgressDeadline: deadline}},
			},
		})
		fn(w, w.place())
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
	})
}

// place adds an allocation to the deployment.
func (w *world) place() *nomad.Allocation {
	w.t.Helper()
	a := w.Alloc(w.t, w.job, w.node, func(a *nomad.Allocation) {
		a.DeploymentID, a.CreateTime, a.ModifyTime = w.id, time.Now().UnixNano(), time.Now().UnixNano()
	})
	synctest.Wait()
	return a
}

// report sends a health report of the client.
func (w *world) report(a *nomad.Allocation, healthy bool) {
	w.t.Helper()
	update := *a
	update.ClientStatus = nomad.AllocClientStatusRunning
	update.DeploymentStatus = &nomad.AllocDeploymentStatus{Healthy: &healthy, Timestamp: time.Now()}
	w.Must(w.t, message.AllocClientUpdateRequestType, &message.AllocUpdateRequest{Alloc: []*nomad.Allocation{&update}})
	synctest.Wait()
}

func (w *world) evals() []*nomad.Evaluation {
	return slices.Collect(w.Snapshot().EvalsByJob(nil, w.job.Namespace, w.job.ID))
}

func (w *world) wantEvals(n int) {
	w.t.Helper()
	evals := w.evals()
	if len(evals) != n {
		w.t.Fatalf("%d evaluations, want %d", len(evals), n)
	}
	for _, e := range evals {
		if e.TriggeredBy != nomad.EvalTriggerDeploymentWatcher || e.DeploymentID != w.id || e.Priority != 60 ||
			e.Status != nomad.EvalStatusPending || e.Type != nomad.JobTypeService {
			w.t.Errorf("evaluation is %+v", e)
		}
	}
}

func (w *world) wantStatus(status, description string) {
	w.t.Helper()
	d := w.Snapshot().Deployment(nil, w.id)
	if d.Status != status || description != "" && d.StatusDescription != description {
		w.t.Errorf("deployment is %s (%s), want %s (%s)", d.Status, d.StatusDescription, status, description)
	}
}

func TestRollout(t *testing.T) {
	rollout(t, 10*time.Minute, func(w *world, first *nomad.Allocation) {
		w.wantEvals(0)
		w.report(first, true)
		w.wantEvals(1)
		w.report(first, true) // repeated
		w.wantEvals(1)
		second, third := w.place(), w.place()
		w.report(second, true)
		w.wantEvals(1) // nothing remains to be placed
		w.wantStatus(nomad.DeploymentStatusRunning, "")
		w.report(third, true)
		w.wantStatus(nomad.DeploymentStatusSuccessful, nomad.DeploymentStatusDescriptionSuccessful)
		w.wantEvals(1)
		if j := w.Snapshot().Job(nil, w.job.Namespace, w.job.ID); !j.Stable {
			t.Error("the job is not marked as stable")
		}
	})
}

func TestProgressDeadline(t *testing.T) {
	rollout(t, 10*time.Minute, func(w *world, first *nomad.Allocation) {
		time.Sleep(9 * time.Minute)
		w.report(first, true) // ten more minutes
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		w.wantStatus(nomad.DeploymentStatusRunning, "")
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantStatus(nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionProgressDeadline)
		w.wantEvals(2) // the next batch and the final status
	})
}

func TestUnhealthy_Replaced(t *testing.T) {
	rollout(t, 10*time.Minute, func(w *world, first *nomad.Allocation) {
		w.report(first, false)
		w.wantEvals(1)
		marked := w.Snapshot().Alloc(nil, first.ID).DesiredTransition.Reschedule
		if marked == nil || !*marked {
			t.Error("the unhealthy allocation is not marked for replacement")
		}
		w.report(first, false)
		w.wantEvals(1)
		w.wantStatus(nomad.DeploymentStatusRunning, "")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		w.wantStatus(nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionProgressDeadline)
	})
}

// TestNewLeader starts a second watcher after the first has ended.
func TestNewLeader(t *testing.T) {
	rollout(t, 10*time.Minute, func(w *world, first *nomad.Allocation) {
		w.report(first, false)
		w.wantEvals(1)
		ctx, cancel := context.WithCancel(w.t.Context())
		defer cancel()
		go deploy.New(deploy.Config{Store: w.Store, Raft: w.Log, Log: slog.New(slog.DiscardHandler), Admission: admitter()}).Run(ctx)
		synctest.Wait()
		w.wantEvals(1)
	})
}

func TestUnhealthy_NoDeadline(t *testing.T) {
	rollout(t, 0, func(w *world, first *nomad.Allocation) {
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		w.wantStatus(nomad.DeploymentStatusRunning, "")
		w.report(first, false)
		w.wantStatus(nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionFailedAllocations)
		w.wantEvals(1)
	})
}

// An unhealthy allocation that may not be rescheduled ends the deployment before its progress deadline, whether it failed
// or runs: a check failed, or its healthy_deadline passed. One that may does not.
func TestUnhealthy_NoReschedule(t *testing.T) {
	for _, status := range []string{nomad.AllocClientStatusFailed, nomad.AllocClientStatusRunning, nomad.AllocClientStatusComplete} {
		t.Run(status, func(t *testing.T) { unhealthyForGood(t, status) })
	}
}

func unhealthyForGood(t *testing.T, status string) {
	for name, tc := range map[string]struct {
		policy *nomad.ReschedulePolicy
		events int
		want   string
	}{
		"no attempts":         {&nomad.ReschedulePolicy{}, 0, nomad.DeploymentStatusFailed},
		"one attempt":         {&nomad.ReschedulePolicy{Attempts: 1, Interval: time.Hour}, 0, nomad.DeploymentStatusRunning},
		"the attempt is used": {&nomad.ReschedulePolicy{Attempts: 1, Interval: time.Hour}, 1, nomad.DeploymentStatusFailed},
		"unlimited":           {&nomad.ReschedulePolicy{Unlimited: true}, 3, nomad.DeploymentStatusRunning},
	} {
		t.Run(name, func(t *testing.T) {
			rollout(t, 10*time.Minute, func(w *world, _ *nomad.Allocation) {
				job := codec.Copy(w.job)
				job.TaskGroup("g").ReschedulePolicy = tc.policy
				a := w.Alloc(t, job, w.node, func(a *nomad.Allocation) {
					a.DeploymentID, a.CreateTime, a.ModifyTime, a.RescheduleTracker = w.id, time.Now().UnixNano(), time.Now().UnixNano(),
						&nomad.RescheduleTracker{}
					for range tc.events {
						a.RescheduleTracker.Events = append(a.RescheduleTracker.Events, &nomad.RescheduleEvent{RescheduleTime: time.Now().UnixNano()})
					}
				})
				update, healthy := *a, false
				update.ClientStatus = status
				update.DeploymentStatus = &nomad.AllocDeploymentStatus{Healthy: &healthy, Timestamp: time.Now()}
				w.Must(t, message.AllocClientUpdateRequestType, &message.AllocUpdateRequest{Alloc: []*nomad.Allocation{&update}})
				synctest.Wait()
				w.wantStatus(tc.want, "")
			})
		})
	}
}

func TestUserRequests(t *testing.T) {
	rollout(t, 10*time.Minute, func(w *world, first *nomad.Allocation) {
		ctx := w.t.Context()
		if _, err := w.w.Resume(ctx, w.id); err == nil {
			t.Error("a running deployment was resumed")
		}
		if _, err := w.w.Pause(ctx, w.id); err != nil {
			t.Fatal(err)
		}
		w.wantStatus(nomad.DeploymentStatusPaused, nomad.DeploymentStatusDescriptionPaused)
		w.report(first, true)
		time.Sleep(time.Hour)
		synctest.Wait()
		w.wantStatus(nomad.DeploymentStatusPaused, "")
		w.wantEvals(0)
		r, err := w.w.Fail(ctx, w.id)
		if err != nil {
			t.Fatal(err)
		}
		w.wantStatus(nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionFailedByUser)
		w.wantEvals(1)
		if e := w.evals()[0]; r.EvalID != e.ID || r.EvalCreateIndex != e.CreateIndex || r.DeploymentModifyIndex != e.CreateIndex ||
			r.Index != e.CreateIndex {
			t.Errorf("Fail() = %+v, for %+v", r, e)
		}
		var coded *apierror.Coded
		if _, err := w.w.Fail(ctx, w.id); !errors.As(err, &coded) || coded.Code != 400 {
			t.Errorf("Fail() of a failed deployment = %v, want a 400", err)
		}
		if _, err := w.w.Fail(ctx, nomad.NewID()); !errors.As(err, &coded) || coded.Code != 404 {
			t.Errorf("Fail() of an unknown deployment = %v, want a 404", err)
		}
	})
}

func TestResumed(t *testing.T) {
	rollout(t, 10*time.Minute, func(w *world, first *nomad.Allocation) {
		if _, err := w.w.Pause(w.t.Context(), w.id); err != nil {
			t.Fatal(err)
		}
		w.report(first, true)
		if _, err := w.w.Resume(w.t.Context(), w.id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantStatus(nomad.DeploymentStatusRunning, nomad.DeploymentStatusDescriptionRunning)
		w.wantEvals(2) // after the resume, and for the batch after the healthy one
	})
}

// A deployment that is resumed after its deadline has the complete deadline from then on.
func TestResumed_AfterDeadline(t *testing.T) {
	rollout(t, 10*time.Minute, func(w *world, _ *nomad.Allocation) { w.resumesLate(w.id) })
}

// A deployment waits for capacity as long as none of its allocations is placed, also after it was paused and resumed.
// The deadline begins with the first allocation.
func TestProgressDeadline_NoCapacity(t *testing.T) {
	for _, resumed := range []bool{false, true} {
		rollout(t, 10*time.Minute, func(w *world, _ *nomad.Allocation) {
			w.id = nomad.NewID()
			w.Must(t, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{Deployment: &nomad.Deployment{
				ID: w.id, Namespace: w.job.Namespace, JobID: w.job.ID, JobVersion: w.job.Version, CreateTime: time.Now().UnixNano(),
				Status:     nomad.DeploymentStatusRunning,
				TaskGroups: map[string]*nomad.DeploymentState{"g": {DesiredTotal: 3, ProgressDeadline: 10 * time.Minute}},
			}})
			synctest.Wait()
			if resumed {
				w.byUser(w.w.Pause)
				w.byUser(w.w.Resume)
			}
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			w.wantStatus(nomad.DeploymentStatusRunning, "")
			w.place()
			time.Sleep(10*time.Minute - time.Second)
			synctest.Wait()
			w.wantStatus(nomad.DeploymentStatusRunning, "")
			time.Sleep(time.Second)
			synctest.Wait()
			w.wantStatus(nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionProgressDeadline)
		})
	}
}

func (w *world) byUser(do func(context.Context, string) (*message.DeploymentUpdateResponse, error)) {
	w.t.Helper()
	if _, err := do(w.t.Context(), w.id); err != nil {
		w.t.Fatal(err)
	}
}

// resumesLate pauses a deployment, and resumes it an hour later.
func (w *world) resumesLate(id string) {
	w.t.Helper()
	w.id = id
	if _, err := w.w.Pause(w.t.Context(), id); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(time.Hour)
	if _, err := w.w.Resume(w.t.Context(), id); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(10*time.Minute - time.Second)
	synctest.Wait()
	w.wantStatus(nomad.DeploymentStatusRunning, "")
	time.Sleep(time.Second)
	synctest.Wait()
	w.wantStatus(nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionProgressDeadline)
}

func TestSetAllocHealth(t *testing.T) {
	rollout(t, 0, func(w *world, first *nomad.Allocation) {
		r, err := w.w.SetAllocHealth(w.t.Context(), &message.DeploymentAllocHealthRequest{
			DeploymentID: w.id, HealthyAllocationIDs: []string{first.ID}})
		if err != nil || r.EvalID == "" {
			t.Fatalf("SetAllocHealth() = %+v, %v", r, err)
		}
		if d := w.Snapshot().Deployment(nil, w.id); d.TaskGroups["g"].HealthyAllocs != 1 {
			t.Errorf("deployment counts %d healthy, want 1", d.TaskGroups["g"].HealthyAllocs)
		}
	})
}

// TestFailedWrite fails one write to the log.
func TestFailedWrite(t *testing.T) {
	rollout(t, 0, func(w *world, first *nomad.Allocation) {
		refused := 0
		w.Before(func(_ context.Context, typ message.CommandType) error {
			if typ == message.DeploymentStatusUpdateRequestType && refused == 0 {
				refused++
				return errors.New("leadership lost")
			}
			return nil
		})
		w.report(first, false)
		w.wantStatus(nomad.DeploymentStatusRunning, "")
		time.Sleep(time.Second)
		synctest.Wait()
		w.wantStatus(nomad.DeploymentStatusFailed, "")
	})
}
