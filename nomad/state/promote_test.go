package state_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// TestPromoteSomeGroups promotes one of two groups with canaries, while the deployment is paused.
func TestPromoteSomeGroups(t *testing.T) {
	w := newWorld(t)
	w.node("n")
	j := w.job("web", func(j *nomad.Job) {
		j.TaskGroups = append(j.TaskGroups, &nomad.TaskGroup{Name: "h", Count: 2})
	})
	w.ok(w.ApplyPlanResults(w.next(), &message.ApplyPlanResultsRequest{Deployment: &nomad.Deployment{
		ID: "d", Namespace: "default", JobID: "web", Status: nomad.DeploymentStatusPaused,
		StatusDescription: nomad.DeploymentStatusDescriptionPaused,
		TaskGroups: map[string]*nomad.DeploymentState{
			"g": {DesiredTotal: 2, DesiredCanaries: 1, ProgressDeadline: time.Minute},
			"h": {DesiredTotal: 2, DesiredCanaries: 1, ProgressDeadline: time.Minute},
		}}}))
	for _, group := range []string{"g", "h"} {
		w.place(j, func(a *nomad.Allocation) {
			a.TaskGroup, a.DeploymentID, a.DeploymentStatus = group, "d", &nomad.AllocDeploymentStatus{Canary: true}
		}, group)
	}
	promote := func(groups ...string) error {
		req := &message.ApplyDeploymentPromoteRequest{}
		req.DeploymentID, req.Groups, req.PromotedAt = "d", groups, time.Unix(1000, 0).UnixNano()
		_, err := w.PromoteDeployment(w.next(), req)
		return err
	}
	if err := promote("g"); err == nil || !strings.Contains(err.Error(), `Task group "g" has 0/1 healthy allocations`) {
		t.Errorf("promotion without a healthy canary: %v", err)
	}
	yes := true
	w.ok(w.SetAllocHealth(w.next(), &message.ApplyDeploymentAllocHealthRequest{Timestamp: time.Unix(500, 0),
		DeploymentAllocHealthRequest: message.DeploymentAllocHealthRequest{DeploymentID: "d", HealthyAllocationIDs: []string{"g"}}}))
	// A client that does not decide about the health reports the task states.
	w.report("g", nomad.AllocClientStatusRunning, func(a *nomad.Allocation) {
		a.DeploymentStatus = &nomad.AllocDeploymentStatus{Canary: true}
	})
	if s := w.snap().Alloc(nil, "g").DeploymentStatus; s.Healthy == nil || *s.Healthy != yes {
		t.Fatalf("the report of the client changed the health to %+v", s)
	}
	if err := promote("g"); err != nil {
		t.Fatal(err)
	}
	d := w.snap().Deployment(nil, "d")
	g, h := d.TaskGroups["g"], d.TaskGroups["h"]
	if !g.Promoted || h.Promoted || !g.RequireProgressBy.Equal(time.Unix(1060, 0)) {
		t.Errorf("after the promotion of g: %+v and %+v", g, h)
	}
	if d.StatusDescription != nomad.DeploymentStatusDescriptionPaused || !d.RequiresPromotion() {
		t.Errorf("the paused deployment is %q, requires promotion: %v", d.StatusDescription, d.RequiresPromotion())
	}
	if w.snap().Alloc(nil, "g").IsCanary() || !w.snap().Alloc(nil, "h").IsCanary() {
		t.Error("the promotion is not of the canary of g only")
	}
	// As with an entry of a leader of Nomad: nothing to promote, and a group that does not exist.
	for _, groups := range [][]string{{"g"}, {"x"}, nil} {
		if err := promote(groups...); err != nil {
			t.Errorf("promotion of %v: %v", groups, err)
		}
		if d := w.snap().Deployment(nil, "d"); d.TaskGroups["h"].Promoted || d.TaskGroups["g"].RequireProgressBy != g.RequireProgressBy {
			t.Errorf("promotion of %v changed %+v", groups, d.TaskGroups)
		}
	}
}
