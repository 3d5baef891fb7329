package nodes_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// An operator drains a node: the strategy, its events and the last drain of the node.
func TestDrain_ByOperator(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n, other := servertest.Join(t, g.Server.RPCAddr()), servertest.Join(t, g.Server.RPCAddr())
	g.Must("Node.UpdateEligibility", &message.NodeUpdateEligibilityRequest{NodeID: other.Node.ID,
		Eligibility: nomad.NodeSchedulingIneligible}, nil)
	job := servertest.ServiceJob("web")
	job.TaskGroups[0].Count, job.TaskGroups[0].Migrate = 1, &nomad.MigrateStrategy{MaxParallel: 0, HealthCheck: "checks",
		HealthyDeadline: time.Minute}
	g.Must("Job.Register", &message.JobRegisterRequest{Job: job}, nil)
	n.Report(nomad.AllocClientStatusRunning, n.Allocs(1)...)
	update := func(spec *nomad.DrainSpec, meta map[string]string) {
		t.Helper()
		req := &message.NodeUpdateDrainRequest{NodeID: n.Node.ID, Meta: meta, MarkEligible: spec == nil}
		if spec != nil {
			req.DrainStrategy = &nomad.DrainStrategy{DrainSpec: *spec}
		}
		g.Must("Node.UpdateDrain", req, nil)
	}
	event := func(want string) {
		t.Helper()
		events := storedNode(g, n).Events
		if last := events[len(events)-1]; last.Message != want || last.Subsystem != nomad.NodeEventSubsystemDrain {
			t.Errorf("last event is %q of %s, want %q", last.Message, last.Subsystem, want)
		}
	}

	update(&nomad.DrainSpec{Deadline: time.Hour}, map[string]string{"message": "disk"})
	first := storedNode(g, n)
	d := first.DrainStrategy
	if d == nil || d.Deadline != time.Hour || d.ForceDeadline.Sub(d.StartedAt) != time.Hour ||
		first.SchedulingEligibility != nomad.NodeSchedulingIneligible {
		t.Fatalf("drain is %+v, the node is %s", d, first.SchedulingEligibility)
	}
	if l := first.LastDrain; l.Status != nomad.DrainStatusDraining || l.Meta["message"] != "disk" ||
		!strings.HasPrefix(l.AccessorID, "token:") {
		t.Errorf("last drain is %+v", l)
	}
	event("Node drain strategy set")
	err := g.Call(g.Root, "Node.UpdateEligibility",
		&message.NodeUpdateEligibilityRequest{NodeID: n.Node.ID, Eligibility: nomad.NodeSchedulingEligible}, nil)
	if !servertest.IsCoded(err, 400, "can not set node's scheduling eligibility to eligible while it is draining") {
		t.Errorf("eligibility of a draining node: %v", err)
	}

	update(&nomad.DrainSpec{IgnoreSystemJobs: true}, nil)
	second := storedNode(g, n)
	if d := second.DrainStrategy; !d.IgnoreSystemJobs || !d.ForceDeadline.IsZero() || !d.StartedAt.Equal(first.DrainStrategy.StartedAt) {
		t.Errorf("changed drain is %+v, started at %v", d, first.DrainStrategy.StartedAt)
	}
	if l := second.LastDrain; l.Meta["message"] != "disk" || !l.StartedAt.Equal(first.LastDrain.StartedAt) {
		t.Errorf("last drain is %+v", l)
	}
	event("Node drain strategy updated")

	update(nil, map[string]string{"message": "not needed"})
	third := storedNode(g, n)
	if l := third.LastDrain; third.DrainStrategy != nil || l.Status != nomad.DrainStatusCanceled || l.Meta["message"] != "not needed" ||
		third.SchedulingEligibility != nomad.NodeSchedulingEligible {
		t.Errorf("after the cancellation: %s, drain %+v, last %+v", third.SchedulingEligibility, third.DrainStrategy, l)
	}
	event("Node drain disabled")
}

// A node may start its own drain, but never change or cancel an active one.
func TestDrain_ByNode(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n, other := servertest.Join(t, g.Server.RPCAddr()), servertest.Join(t, g.Server.RPCAddr())
	g.Must("Node.UpdateEligibility", &message.NodeUpdateEligibilityRequest{NodeID: other.Node.ID,
		Eligibility: nomad.NodeSchedulingIneligible}, nil)
	g.Must("Job.Register", &message.JobRegisterRequest{Job: servertest.BatchJob("b", 1)}, nil)
	alloc := n.Allocs(1)[0]
	n.Report(nomad.AllocClientStatusRunning, alloc)
	start := func(secret string, deadline time.Duration, meta map[string]string) error {
		return g.Call(secret, "Node.UpdateDrain", &message.NodeUpdateDrainRequest{NodeID: n.Node.ID, Meta: meta,
			DrainStrategy: &nomad.DrainStrategy{DrainSpec: nomad.DrainSpec{Deadline: deadline}}}, nil)
	}
	if err := start(other.JWT, time.Hour, nil); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("a node drains another: %v", err)
	}
	many := map[string]string{"message": strings.Repeat("x", 17<<10)}
	if err := start(n.JWT, time.Hour, many); !servertest.IsCoded(err, 400, "metadata of the drain is too large") {
		t.Errorf("too much metadata: %v", err)
	}
	if got := storedNode(g, n); got.DrainStrategy != nil || got.LastDrain != nil {
		t.Fatalf("drain %+v, last %+v", got.DrainStrategy, got.LastDrain)
	}
	if err := start(n.JWT, time.Hour, map[string]string{"message": "shutting down"}); err != nil {
		t.Fatal(err)
	}
	first := storedNode(g, n)
	if first.DrainStrategy == nil || first.LastDrain.AccessorID != "client:"+n.Node.ID || first.LastDrain.Meta["message"] != "shutting down" {
		t.Fatalf("drain %+v, last %+v", first.DrainStrategy, first.LastDrain)
	}
	if err := start(n.JWT, 0, map[string]string{"message": "never"}); err != nil {
		t.Errorf("a node that drains already: %v", err)
	}
	if again := storedNode(g, n); again.DrainStrategy == nil ||
		!again.DrainStrategy.ForceDeadline.Equal(first.DrainStrategy.ForceDeadline) || again.LastDrain.Meta["message"] != "shutting down" {
		t.Errorf("the node changed its drain: %+v, last %+v", again.DrainStrategy, again.LastDrain)
	}
	n.Report(nomad.AllocClientStatusComplete, alloc)
	servertest.Eventually(t, func() bool { return storedNode(g, n).DrainStrategy == nil })
	if got := storedNode(g, n); got.LastDrain.Status != nomad.DrainStatusComplete ||
		got.SchedulingEligibility != nomad.NodeSchedulingIneligible {
		t.Errorf("after the drain: %s, last %+v", got.SchedulingEligibility, got.LastDrain)
	}
}

// A drain moves the allocations of a service job to another node.
func TestDrain_MovesAllocations(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n := servertest.Join(t, g.Server.RPCAddr())
	job := servertest.BatchJob("web", 2)
	job.Type = nomad.JobTypeService
	job.TaskGroups[0].Update = &nomad.UpdateStrategy{HealthCheck: "task_states", HealthyDeadline: time.Minute}
	job.TaskGroups[0].Migrate = &nomad.MigrateStrategy{MaxParallel: 1, HealthCheck: "task_states", HealthyDeadline: time.Minute}
	g.Must("Job.Register", &message.JobRegisterRequest{Job: job}, nil)
	healthy := func(f *servertest.FakeNode, allocs ...*nomad.Allocation) {
		yes := true
		var updates []*nomad.Allocation
		for _, a := range allocs {
			updates = append(updates, &nomad.Allocation{ID: a.ID, NodeID: a.NodeID, ClientStatus: nomad.AllocClientStatusRunning,
				DeploymentStatus: &nomad.AllocDeploymentStatus{Healthy: &yes, Timestamp: time.Now()}})
		}
		f.Must("Node.UpdateAlloc", &message.AllocUpdateRequest{Alloc: updates, WriteRequest: f.Write(f.JWT)}, &message.GenericResponse{})
	}
	old := n.Allocs(2)
	healthy(n, old...)
	other := servertest.Join(t, g.Server.RPCAddr())
	g.Must("Node.UpdateDrain", &message.NodeUpdateDrainRequest{NodeID: n.Node.ID, DrainStrategy: &nomad.DrainStrategy{}}, nil)
	stopped := func() (out []*nomad.Allocation) {
		for _, a := range n.Allocs(2) {
			if a.DesiredStatus == nomad.AllocDesiredStatusStop {
				out = append(out, a)
			}
		}
		return out
	}
	for moved := 1; moved <= 2; moved++ {
		servertest.Eventually(t, func() bool { return len(stopped()) == moved })
		for _, a := range stopped() {
			n.Report(nomad.AllocClientStatusComplete, a)
		}
		if moved == 1 && storedNode(g, n).DrainStrategy == nil {
			t.Fatal("the drain ended early")
		}
		healthy(other, other.Allocs(moved)...)
	}
	servertest.Eventually(t, func() bool { return storedNode(g, n).DrainStrategy == nil })
	if got := storedNode(g, n); got.LastDrain.Status != nomad.DrainStatusComplete {
		t.Errorf("last drain is %+v", got.LastDrain)
	}
}
