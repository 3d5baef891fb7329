package server_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// An operator drains a node: the strategy, its events and the last drain of the node.
func TestOperatorDrains(t *testing.T) {
	g := guard(t, nil)
	n, other := join(t, g.s.RPCAddr()), join(t, g.s.RPCAddr())
	g.must("Node.UpdateEligibility", &message.NodeUpdateEligibilityRequest{NodeID: other.node.ID, Eligibility: nomad.NodeSchedulingIneligible}, nil)
	job := serviceJob("web")
	job.TaskGroups[0].Count, job.TaskGroups[0].Migrate = 1, &nomad.MigrateStrategy{MaxParallel: 0, HealthCheck: "checks", HealthyDeadline: time.Minute}
	g.must("Job.Register", &message.JobRegisterRequest{Job: job}, nil)
	n.report(nomad.AllocClientStatusRunning, n.allocs(1)...)
	update := func(spec *nomad.DrainSpec, meta map[string]string) {
		t.Helper()
		req := &message.NodeUpdateDrainRequest{NodeID: n.node.ID, Meta: meta, MarkEligible: spec == nil}
		if spec != nil {
			req.DrainStrategy = &nomad.DrainStrategy{DrainSpec: *spec}
		}
		g.must("Node.UpdateDrain", req, nil)
	}
	event := func(want string) {
		t.Helper()
		events := g.stored(n).Events
		if last := events[len(events)-1]; last.Message != want || last.Subsystem != nomad.NodeEventSubsystemDrain {
			t.Errorf("last event is %q of %s, want %q", last.Message, last.Subsystem, want)
		}
	}

	update(&nomad.DrainSpec{Deadline: time.Hour}, map[string]string{"message": "disk"})
	first := g.stored(n)
	d := first.DrainStrategy
	if d == nil || d.Deadline != time.Hour || d.ForceDeadline.Sub(d.StartedAt) != time.Hour || first.SchedulingEligibility != nomad.NodeSchedulingIneligible {
		t.Fatalf("drain is %+v, the node is %s", d, first.SchedulingEligibility)
	}
	if l := first.LastDrain; l.Status != nomad.DrainStatusDraining || l.Meta["message"] != "disk" || !strings.HasPrefix(l.AccessorID, "token:") {
		t.Errorf("last drain is %+v", l)
	}
	event("Node drain strategy set")
	err := g.call(g.root, "Node.UpdateEligibility", &message.NodeUpdateEligibilityRequest{NodeID: n.node.ID, Eligibility: nomad.NodeSchedulingEligible}, nil)
	if !isCoded(err, 400, "can not set node's scheduling eligibility to eligible while it is draining") {
		t.Errorf("eligibility of a draining node: %v", err)
	}

	update(&nomad.DrainSpec{IgnoreSystemJobs: true}, nil)
	second := g.stored(n)
	if d := second.DrainStrategy; !d.IgnoreSystemJobs || !d.ForceDeadline.IsZero() || !d.StartedAt.Equal(first.DrainStrategy.StartedAt) {
		t.Errorf("changed drain is %+v, started at %v", d, first.DrainStrategy.StartedAt)
	}
	if l := second.LastDrain; l.Meta["message"] != "disk" || !l.StartedAt.Equal(first.LastDrain.StartedAt) {
		t.Errorf("last drain is %+v", l)
	}
	event("Node drain strategy updated")

	update(nil, map[string]string{"message": "not needed"})
	third := g.stored(n)
	if l := third.LastDrain; third.DrainStrategy != nil || l.Status != nomad.DrainStatusCanceled || l.Meta["message"] != "not needed" ||
		third.SchedulingEligibility != nomad.NodeSchedulingEligible {
		t.Errorf("after the cancellation: %s, drain %+v, last %+v", third.SchedulingEligibility, third.DrainStrategy, l)
	}
	event("Node drain disabled")
}

// A node may start its own drain, but never change or cancel an active one.
func TestNodeDrainsItself(t *testing.T) {
	g := guard(t, nil)
	n, other := join(t, g.s.RPCAddr()), join(t, g.s.RPCAddr())
	g.must("Node.UpdateEligibility", &message.NodeUpdateEligibilityRequest{NodeID: other.node.ID, Eligibility: nomad.NodeSchedulingIneligible}, nil)
	g.must("Job.Register", &message.JobRegisterRequest{Job: batchJob("b", 1)}, nil)
	alloc := n.allocs(1)[0]
	n.report(nomad.AllocClientStatusRunning, alloc)
	start := func(secret string, deadline time.Duration, meta map[string]string) error {
		return g.call(secret, "Node.UpdateDrain", &message.NodeUpdateDrainRequest{NodeID: n.node.ID, Meta: meta,
			DrainStrategy: &nomad.DrainStrategy{DrainSpec: nomad.DrainSpec{Deadline: deadline}}}, nil)
	}
	if err := start(other.jwt, time.Hour, nil); !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("a node drains another: %v", err)
	}
	many := map[string]string{"message": strings.Repeat("x", 17<<10)}
	if err := start(n.jwt, time.Hour, many); !isCoded(err, 400, "metadata of the drain is too large") {
		t.Errorf("too much metadata: %v", err)
	}
	if got := g.stored(n); got.DrainStrategy != nil || got.LastDrain != nil {
		t.Fatalf("drain %+v, last %+v", got.DrainStrategy, got.LastDrain)
	}
	if err := start(n.jwt, time.Hour, map[string]string{"message": "shutting down"}); err != nil {
		t.Fatal(err)
	}
	first := g.stored(n)
	if first.DrainStrategy == nil || first.LastDrain.AccessorID != "client:"+n.node.ID || first.LastDrain.Meta["message"] != "shutting down" {
		t.Fatalf("drain %+v, last %+v", first.DrainStrategy, first.LastDrain)
	}
	if err := start(n.jwt, 0, map[string]string{"message": "never"}); err != nil {
		t.Errorf("a node that drains already: %v", err)
	}
	if again := g.stored(n); again.DrainStrategy == nil || !again.DrainStrategy.ForceDeadline.Equal(first.DrainStrategy.ForceDeadline) || again.LastDrain.Meta["message"] != "shutting down" {
		t.Errorf("the node changed its drain: %+v, last %+v", again.DrainStrategy, again.LastDrain)
	}
	n.report(nomad.AllocClientStatusComplete, alloc)
	eventually(t, func() bool { return g.stored(n).DrainStrategy == nil })
	if got := g.stored(n); got.LastDrain.Status != nomad.DrainStatusComplete || got.SchedulingEligibility != nomad.NodeSchedulingIneligible {
		t.Errorf("after the drain: %s, last %+v", got.SchedulingEligibility, got.LastDrain)
	}
}

// A drain moves the allocations of a service job to another node.
func TestDrainMovesAllocations(t *testing.T) {
	g := guard(t, nil)
	n := join(t, g.s.RPCAddr())
	job := batchJob("web", 2)
	job.Type = nomad.JobTypeService
	job.TaskGroups[0].Update = &nomad.UpdateStrategy{HealthCheck: "task_states", HealthyDeadline: time.Minute}
	job.TaskGroups[0].Migrate = &nomad.MigrateStrategy{MaxParallel: 1, HealthCheck: "task_states", HealthyDeadline: time.Minute}
	g.must("Job.Register", &message.JobRegisterRequest{Job: job}, nil)
	healthy := func(f *fakeNode, allocs ...*nomad.Allocation) {
		yes := true
		var updates []*nomad.Allocation
		for _, a := range allocs {
			updates = append(updates, &nomad.Allocation{ID: a.ID, NodeID: a.NodeID, ClientStatus: nomad.AllocClientStatusRunning,
				DeploymentStatus: &nomad.AllocDeploymentStatus{Healthy: &yes, Timestamp: time.Now()}})
		}
		f.must("Node.UpdateAlloc", &message.AllocUpdateRequest{Alloc: updates, WriteRequest: f.write(f.jwt)}, &message.GenericResponse{})
	}
	old := n.allocs(2)
	healthy(n, old...)
	other := join(t, g.s.RPCAddr())
	g.must("Node.UpdateDrain", &message.NodeUpdateDrainRequest{NodeID: n.node.ID, DrainStrategy: &nomad.DrainStrategy{}}, nil)
	stopped := func() (out []*nomad.Allocation) {
		for _, a := range n.allocs(2) {
			if a.DesiredStatus == nomad.AllocDesiredStatusStop {
				out = append(out, a)
			}
		}
		return out
	}
	for moved := 1; moved <= 2; moved++ {
		eventually(t, func() bool { return len(stopped()) == moved })
		for _, a := range stopped() {
			n.report(nomad.AllocClientStatusComplete, a)
		}
		if moved == 1 && g.stored(n).DrainStrategy == nil {
			t.Fatal("the drain ended early")
		}
		healthy(other, other.allocs(moved)...)
	}
	eventually(t, func() bool { return g.stored(n).DrainStrategy == nil })
	if got := g.stored(n); got.LastDrain.Status != nomad.DrainStatusComplete {
		t.Errorf("last drain is %+v", got.LastDrain)
	}
}
