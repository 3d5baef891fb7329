package deploy_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/deploy"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// canary runs fn with a deployment of version 1 that has two canaries in a group of three. Version 0 is stable if
// stable is set. Without auto the promotion is by hand.
func canary(t *testing.T, edit func(*nomad.DeploymentState), stable bool, fn func(w *world, canaries []*nomad.Allocation)) {
	t.Helper()
	rollout(t, 0, func(w *world, _ *nomad.Allocation) {
		if stable {
			w.Must(w.t, message.JobStabilityRequestType, &message.JobStabilityRequest{JobID: w.job.ID, Stable: true,
				WriteRequest: message.WriteRequest{Namespace: w.job.Namespace}})
		}
		w.job = w.Job(w.t, nomad.JobTypeService, 3, func(j *nomad.Job) {
			j.ID = w.job.ID
			j.TaskGroups[0].Tasks[0].Config = map[string]any{"run_for": "20s"}
		})
		w.id = nomad.NewID()
		g := &nomad.DeploymentState{DesiredTotal: 3, DesiredCanaries: 2, ProgressDeadline: 10 * time.Minute}
		edit(g)
		w.Must(w.t, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{Deployment: &nomad.Deployment{
			ID: w.id, Namespace: w.job.Namespace, JobID: w.job.ID, JobVersion: w.job.Version, JobCreateIndex: w.job.CreateIndex,
			CreateTime: time.Now().UnixNano(), Status: nomad.DeploymentStatusRunning, EvalPriority: 60,
			TaskGroups: map[string]*nomad.DeploymentState{"g": g},
		}})
		var canaries []*nomad.Allocation
		for range 2 {
			canaries = append(canaries, w.Alloc(w.t, w.job, w.node, func(a *nomad.Allocation) {
				a.DeploymentID, a.CreateTime, a.ModifyTime = w.id, time.Now().UnixNano(), time.Now().UnixNano()
				a.DeploymentStatus = &nomad.AllocDeploymentStatus{Canary: true}
			}))
		}
		synctest.Wait()
		fn(w, canaries)
	})
}

func (w *world) state() *nomad.DeploymentState {
	return w.Snapshot().Deployment(nil, w.id).TaskGroups["g"]
}

// promote requests a promotion and expects an error with the text, or none if it is empty.
func (w *world) promote(req *message.DeploymentPromoteRequest, want string) {
	w.t.Helper()
	req.DeploymentID = w.id
	_, err := w.w.Promote(w.t.Context(), req)
	var coded *apierror.Coded
	switch {
	case want == "" && err != nil:
		w.t.Fatal(err)
	case want != "" && (!errors.As(err, &coded) || coded.Code != 400 || !strings.Contains(err.Error(), want)):
		w.t.Errorf("Promote() = %v, want a 400 with %q", err, want)
	}
}

func TestPromote(t *testing.T) {
	canary(t, func(*nomad.DeploymentState) {}, false, func(w *world, canaries []*nomad.Allocation) {
		all := &message.DeploymentPromoteRequest{All: true}
		w.promote(all, `Task group "g" has 0/2 healthy allocations`)
		w.report(canaries[0], true)
		w.promote(all, `Task group "g" has 1/2 healthy allocations`)
		w.promote(&message.DeploymentPromoteRequest{Groups: []string{"x"}}, `Task group "x" is not part of`)
		before := len(w.evals())
		w.report(canaries[1], true)
		w.wantStatus(nomad.DeploymentStatusRunning, "")
		if w.state().Promoted {
			t.Error("canaries without auto_promote were promoted")
		}
		time.Sleep(time.Hour) // nothing is late while the canaries are healthy
		synctest.Wait()
		w.wantStatus(nomad.DeploymentStatusRunning, "")
		w.promote(&message.DeploymentPromoteRequest{Groups: []string{"g"}}, "")
		synctest.Wait()
		w.wantStatus(nomad.DeploymentStatusRunning, nomad.DeploymentStatusDescriptionRunning)
		s := w.state()
		if !s.Promoted || !s.RequireProgressBy.Equal(time.Now().Add(10*time.Minute)) {
			t.Errorf("the group is %+v, want it promoted with a new deadline", s)
		}
		if n := len(w.evals()); n <= before {
			t.Errorf("%d evaluations, %d before the promotion", n, before)
		}
		for _, a := range canaries {
			now := w.Snapshot().Alloc(nil, a.ID)
			if now.IsCanary() || now.DeploymentStatus.Healthy == nil || !*now.DeploymentStatus.Healthy {
				t.Errorf("the promoted canary has %+v", now.DeploymentStatus)
			}
		}
		before = len(w.evals())
		w.promote(all, "") // they are promoted already
		if n := len(w.evals()); n != before+1 {
			t.Errorf("a promotion without canaries made %d evaluations, want 1", n-before)
		}
		w.report(w.place(), true)
		w.wantStatus(nomad.DeploymentStatusSuccessful, "")
		w.promote(all, "can't promote terminal deployment")
	})
}

func TestPromote_Auto(t *testing.T) {
	canary(t, func(g *nomad.DeploymentState) { g.AutoPromote = true }, false, func(w *world, canaries []*nomad.Allocation) {
		w.report(canaries[0], true)
		if w.state().Promoted {
			t.Error("promoted with one of two canaries")
		}
		w.report(canaries[1], true)
		if !w.state().Promoted {
			t.Error("not promoted with both canaries")
		}
		w.wantStatus(nomad.DeploymentStatusRunning, nomad.DeploymentStatusDescriptionRunning)
	})
}

// A canary group that is not healthy in time fails, and with auto_revert the latest stable version runs again.
func TestRevert_Canaries(t *testing.T) {
	for name, c := range map[string]struct {
		stable bool
		edit   func(*nomad.DeploymentState)
		suffix string
		runs   uint64 // the version of the job in the end
	}{
		"stable":         {true, func(g *nomad.DeploymentState) { g.AutoRevert = true }, " - rolling back to job version 0", 2},
		"not stable":     {false, func(g *nomad.DeploymentState) { g.AutoRevert = true }, " - no stable job version to auto revert to", 1},
		"no auto_revert": {true, func(*nomad.DeploymentState) {}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			canary(t, c.edit, c.stable, func(w *world, canaries []*nomad.Allocation) {
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				w.wantStatus(nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionProgressDeadline+c.suffix)
				j := w.Snapshot().Job(nil, w.job.Namespace, w.job.ID)
				if j.Version != c.runs || j.Stable {
					t.Errorf("the job has version %d, stable %v, want %d, not stable", j.Version, j.Stable, c.runs)
				}
				if c.runs == 2 && j.TaskGroups[0].Tasks[0].Config["run_for"] != "10s" {
					t.Errorf("the job has the config %v, want that of version 0", j.TaskGroups[0].Tasks[0].Config)
				}
			})
		})
	}
}

// A failure by hand reverts too, and the answer has the version.
func TestRevert_Fail(t *testing.T) {
	canary(t, func(g *nomad.DeploymentState) { g.AutoRevert = true }, true, func(w *world, _ []*nomad.Allocation) {
		r, err := w.w.Fail(w.t.Context(), w.id)
		if err != nil || r.RevertedJobVersion == nil || *r.RevertedJobVersion != 0 {
			t.Fatalf("Fail() = %+v, %v, want a revert to version 0", r, err)
		}
		w.wantStatus(nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionFailedByUser+" - rolling back to job version 0")
	})
}

// A stable version with the same specification is not registered again.
func TestRevert_SameSpec(t *testing.T) {
	canary(t, func(g *nomad.DeploymentState) { g.AutoRevert = true }, false, func(w *world, _ []*nomad.Allocation) {
		w.Must(t, message.JobStabilityRequestType, &message.JobStabilityRequest{JobID: w.job.ID, JobVersion: 1, Stable: true,
			WriteRequest: message.WriteRequest{Namespace: w.job.Namespace}})
		if _, err := w.w.Fail(w.t.Context(), w.id); err != nil {
			t.Fatal(err)
		}
		w.wantStatus(nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionFailedByUser+
			" - not rolling back to stable job version 1 as current job has same specification")
	})
}

// A promotion that the log refused is tried again.
func TestPromote_FailedWrite(t *testing.T) {
	canary(t, func(g *nomad.DeploymentState) { g.AutoPromote = true }, false, func(w *world, canaries []*nomad.Allocation) {
		var failing atomic.Bool
		failing.Store(true)
		w.Before(failPromotions(&failing))
		for _, a := range canaries {
			w.report(a, true)
		}
		if w.state().Promoted {
			t.Fatal("promoted although the log refused it")
		}
		failing.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if !w.state().Promoted {
			t.Error("not promoted after the log accepted entries again")
		}
	})
}

// The next leader promotes canaries that became healthy while the log refused entries.
func TestPromote_NewLeader(t *testing.T) {
	canary(t, func(g *nomad.DeploymentState) { g.AutoPromote = true }, false, func(w *world, canaries []*nomad.Allocation) {
		var failing atomic.Bool
		failing.Store(true)
		w.Before(failPromotions(&failing))
		for _, a := range canaries {
			w.report(a, true)
		}
		failing.Store(false)
		ctx, cancel := context.WithCancel(w.t.Context())
		defer cancel()
		go deploy.New(deploy.Config{Store: w.Store, Raft: w.Log, Log: slog.New(slog.DiscardHandler), Admission: admitter()}).Run(ctx)
		synctest.Wait()
		if !w.state().Promoted {
			t.Error("the second watcher does not promote")
		}
	})
}

func TestSetAllocHealth_Refused(t *testing.T) {
	rollout(t, 0, func(w *world, first *nomad.Allocation) {
		for _, c := range []struct {
			healthy, unhealthy []string
			want               string
		}{
			{nil, nil, "at least one allocation"},
			{[]string{nomad.NewID()}, nil, "is not part of deployment"},
			{[]string{first.ID}, []string{first.ID}, "both healthy and unhealthy"},
		} {
			_, err := w.w.SetAllocHealth(w.t.Context(), &message.DeploymentAllocHealthRequest{
				DeploymentID: w.id, HealthyAllocationIDs: c.healthy, UnhealthyAllocationIDs: c.unhealthy})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("SetAllocHealth(%v, %v) = %v, want %q", c.healthy, c.unhealthy, err, c.want)
			}
		}
		if got := slices.Collect(w.Snapshot().EvalsByJob(nil, w.job.Namespace, w.job.ID)); len(got) != 0 {
			t.Errorf("%d evaluations of refused requests", len(got))
		}
	})
}

// failPromotions refuses promotions while on.
func failPromotions(on *atomic.Bool) func(context.Context, message.CommandType) error {
	return func(_ context.Context, typ message.CommandType) error {
		if on.Load() && typ == message.DeploymentPromoteRequestType {
			return errors.New("leadership lost")
		}
		return nil
	}
}
