package state_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// A plan with an existing deployment changes its totals. Its counters and its status stay.
func TestDeploymentIsResized(t *testing.T) {
	w := newWorld(t)
	w.node("n")
	j := w.job("j")
	write := func(d *nomad.Deployment) {
		w.ok(w.ApplyPlanResults(w.next(), &message.ApplyPlanResultsRequest{Job: j, Deployment: d}))
	}
	stale := func(total int) *nomad.Deployment {
		return &nomad.Deployment{ID: "d", Namespace: "default", JobID: "j", Status: nomad.DeploymentStatusRunning, StatusDescription: "stale",
			TaskGroups: map[string]*nomad.DeploymentState{"g": {DesiredTotal: total, ProgressDeadline: time.Minute}}}
	}
	write(stale(3))
	w.place(j, func(a *nomad.Allocation) { a.DeploymentID = "d" }, "a")
	w.ok(w.UpdateDeploymentStatus(w.next(), &message.DeploymentStatusUpdateRequest{DeploymentUpdate: &nomad.DeploymentStatusUpdate{
		DeploymentID: "d", Status: nomad.DeploymentStatusPaused, StatusDescription: nomad.DeploymentStatusDescriptionPaused}}))
	before := w.snap().Deployment(nil, "d")

	write(stale(3))
	if got := w.snap().Deployment(nil, "d"); got != before {
		t.Errorf("the same total changed the deployment to %+v", got)
	}
	write(stale(5))
	got := w.snap().Deployment(nil, "d")
	if g := got.TaskGroups["g"]; g.DesiredTotal != 5 || g.PlacedAllocs != 1 ||
		g.RequireProgressBy != before.TaskGroups["g"].RequireProgressBy {
		t.Errorf("the group is %+v", g)
	}
	if got.Status != nomad.DeploymentStatusPaused || got.StatusDescription != nomad.DeploymentStatusDescriptionPaused ||
		got.CreateIndex != before.CreateIndex || got.ModifyIndex <= before.ModifyIndex {
		t.Errorf("the deployment is %+v", got)
	}
	if before.TaskGroups["g"].DesiredTotal != 3 {
		t.Error("a row was written to")
	}

	w.ok(w.UpdateDeploymentStatus(w.next(), &message.DeploymentStatusUpdateRequest{DeploymentUpdate: &nomad.DeploymentStatusUpdate{
		DeploymentID: "d", Status: nomad.DeploymentStatusFailed}}))
	write(stale(9))
	if got := w.snap().Deployment(nil, "d"); got.TaskGroups["g"].DesiredTotal != 5 || got.Status != nomad.DeploymentStatusFailed {
		t.Errorf("a deployment that ended is %+v", got)
	}
}

// A command without a time, as leaders of other builds write, keeps the ModifyTime of a deployment.
func TestDeployment_ModifyTime(t *testing.T) {
	for name, c := range map[string]struct {
		write func(w *world, at int64)
		now   int64
	}{
		"status": {func(w *world, at int64) {
			w.ok(w.UpdateDeploymentStatus(w.next(), &message.DeploymentStatusUpdateRequest{DeploymentUpdate: &nomad.DeploymentStatusUpdate{
				DeploymentID: "d", Status: nomad.DeploymentStatusSuccessful, UpdatedAt: at}}))
		}, 200},
		"status in a plan": {func(w *world, at int64) {
			w.ok(w.ApplyPlanResults(w.next(), &message.ApplyPlanResultsRequest{DeploymentUpdates: []*nomad.DeploymentStatusUpdate{{
				DeploymentID: "d", Status: nomad.DeploymentStatusCancelled, UpdatedAt: at}}}))
		}, 200},
		"allocation": {func(w *world, at int64) {
			w.place(w.snap().Job(nil, "default", "j"), func(a *nomad.Allocation) { a.DeploymentID, a.ModifyTime = "d", at }, "a")
		}, 200},
		"total": {func(w *world, at int64) {
			w.ok(w.ApplyPlanResults(w.next(), &message.ApplyPlanResultsRequest{Deployment: &nomad.Deployment{ID: "d", ModifyTime: at,
				TaskGroups: map[string]*nomad.DeploymentState{"g": {DesiredTotal: 2}}}}))
		}, 100},
	} {
		for at, want := range map[int64]int64{0: 100, 200: c.now} {
			w := newWorld(t)
			w.node("n")
			w.job("j")
			w.ok(w.ApplyPlanResults(w.next(),
				&message.ApplyPlanResultsRequest{Deployment: &nomad.Deployment{ID: "d", Namespace: "default", JobID: "j",
					Status: nomad.DeploymentStatusRunning, ModifyTime: 100, TaskGroups: map[string]*nomad.DeploymentState{"g": {DesiredTotal: 1}}}}))
			c.write(w, at)
			if got := w.snap().Deployment(nil, "d").ModifyTime; got != want {
				t.Errorf("%s at %d: ModifyTime = %d, want %d", name, at, got, want)
			}
		}
	}
}
