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
	if g := got.TaskGroups["g"]; g.DesiredTotal != 5 || g.PlacedAllocs != 1 || g.RequireProgressBy != before.TaskGroups["g"].RequireProgressBy {
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
