package server_test

import (
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// An operator made the node ineligible. No method that the node can call with its credentials
// changes that, its drain, or what operators see.
func TestNodeKeepsItsQuarantine(t *testing.T) {
	for name, enabled := range map[string]bool{"with ACLs": true, "without ACLs": false} {
		t.Run(name, func(t *testing.T) {
			s, _ := start(t, func(c *server.Config) { c.Access.Enabled = enabled })
			g := &guarded{T: t, s: s}
			if enabled {
				out, err := g.bootstrap("")
				if err != nil {
					t.Fatal(err)
				}
				g.root = out.SecretID
			}
			n := join(t, s.RPCAddr())
			g.must("Node.UpdateEligibility", &message.NodeUpdateEligibilityRequest{NodeID: n.node.ID, Eligibility: nomad.NodeSchedulingIneligible}, nil)
			credentials := []string{n.jwt, n.node.SecretID}
			if !enabled {
				credentials = credentials[:1] // the secret ID is not verified, so the caller is anonymous
			}
			for method, attempts := range quarantineAttacks(n.node) {
				for what, req := range attempts {
					for _, credential := range credentials {
						_ = g.call(credential, method, req(), nil) // refused or without effect
						if now := g.stored(n); now.SchedulingEligibility != nomad.NodeSchedulingIneligible || now.DrainStrategy != nil || now.LastDrain != nil {
							t.Fatalf("%s, %s: the node is %s, drain %+v, last drain %+v", method, what, now.SchedulingEligibility, now.DrainStrategy, now.LastDrain)
						}
					}
				}
			}
			for _, e := range g.stored(n).Events {
				if e.Subsystem != nomad.NodeEventSubsystemDriver && e.Message == forged {
					t.Errorf("the node forged an event of the subsystem %s", e.Subsystem)
				}
			}
			for _, credential := range credentials {
				err := g.call(credential, "Node.UpdateDrain", &message.NodeUpdateDrainRequest{NodeID: n.node.ID, MarkEligible: true}, nil)
				if !errors.Is(err, nomad.ErrPermissionDenied) {
					t.Errorf("a node that marks itself eligible gets %v", err)
				}
			}
			g.must("Node.UpdateDrain", &message.NodeUpdateDrainRequest{NodeID: n.node.ID, MarkEligible: true}, nil)
			if now := g.stored(n); now.SchedulingEligibility != nomad.NodeSchedulingEligible {
				t.Errorf("after an operator lifted it, the node is %s", now.SchedulingEligibility)
			}
		})
	}
}

const forged = "Node marked as eligible for scheduling"

// quarantineAttacks returns the requests that a node can send to the methods that it may call.
func quarantineAttacks(n *nomad.Node) map[string]map[string]func() rpc.Request {
	event := func(subsystem string) *nomad.NodeEvent {
		return &nomad.NodeEvent{Message: forged, Subsystem: subsystem, Timestamp: time.Now()}
	}
	registration := func(edit func(*nomad.Node)) func() rpc.Request {
		return func() rpc.Request {
			again := *n
			edit(&again)
			return &message.NodeRegisterRequest{Node: &again, NodeEvent: event(nomad.NodeEventSubsystemCluster)}
		}
	}
	status := func(status string) func() rpc.Request {
		return func() rpc.Request {
			return &message.NodeUpdateStatusRequest{NodeID: n.ID, Status: status, NodeEvent: event(nomad.NodeEventSubsystemScheduler)}
		}
	}
	out := map[string]map[string]func() rpc.Request{
		"Node.UpdateDrain": {
			"mark eligible": func() rpc.Request { return &message.NodeUpdateDrainRequest{NodeID: n.ID, MarkEligible: true} },
		},
		"Node.UpdateEligibility": {"eligible": func() rpc.Request {
			return &message.NodeUpdateEligibilityRequest{NodeID: n.ID, Eligibility: nomad.NodeSchedulingEligible}
		}},
		"Node.Register": {
			"eligible": registration(func(n *nomad.Node) { n.SchedulingEligibility = nomad.NodeSchedulingEligible }),
			"drained":  registration(func(n *nomad.Node) { n.DrainStrategy = &nomad.DrainStrategy{} }),
			"last drain": registration(func(n *nomad.Node) {
				n.LastDrain = &nomad.DrainMetadata{Status: nomad.DrainStatusComplete}
			}),
			"ready": registration(func(n *nomad.Node) { n.Status, n.SchedulingEligibility = nomad.NodeStatusReady, "" }),
		},
		"Node.UpdateStatus": {"ready": status(nomad.NodeStatusReady), "down": status(nomad.NodeStatusDown), "back": status(nomad.NodeStatusReady)},
		"Node.EmitEvents":   {},
		"Node.Evaluate":     {"": func() rpc.Request { return &message.NodeEvaluateRequest{NodeID: n.ID} }},
		"Node.UpdateAlloc": {"": func() rpc.Request {
			return &message.AllocUpdateRequest{Alloc: []*nomad.Allocation{{ID: nomad.NewID(), NodeID: n.ID}}}
		}},
	}
	for _, subsystem := range []string{"Cluster", "Drain", "Heartbeat", "Scheduler", "Driver"} {
		out["Node.EmitEvents"][subsystem] = func() rpc.Request {
			return &message.EmitNodeEventsRequest{NodeEvents: map[string][]*nomad.NodeEvent{n.ID: {event(subsystem)}}}
		}
	}
	return out
}

// stored returns the node as operators read it.
func (g *guarded) stored(n *fakeNode) *nomad.Node {
	g.Helper()
	return got[message.SingleNodeResponse](g, g.root, "Node.GetNode", &message.NodeSpecificRequest{NodeID: n.node.ID}).Node
}

// Fields that only servers set are not taken from the first registration either.
func TestNewNodeCannotSetServerFields(t *testing.T) {
	g := guard(t, nil)
	n := stranger(t, g.s)
	key := nomad.NewID()
	n.node.DrainStrategy, n.node.LastDrain = &nomad.DrainStrategy{}, &nomad.DrainMetadata{Status: nomad.DrainStatusComplete}
	n.node.LastMissedHeartbeatIndex, n.node.LastAllocUpdateIndex, n.node.IdentitySigningKeyID = 1, 1<<40, key
	n.node.SchedulingEligibility, n.node.Events = "whatever", []*nomad.NodeEvent{{Message: forged}}
	n.node.StatusDescription, n.node.CreateIndex = forged, 1
	if err := n.enter(""); err != nil {
		t.Fatal(err)
	}
	got := g.stored(n)
	if got.DrainStrategy != nil || got.LastDrain != nil || got.LastMissedHeartbeatIndex != 0 || got.LastAllocUpdateIndex != 0 ||
		got.IdentitySigningKeyID == key || got.SchedulingEligibility != nomad.NodeSchedulingEligible || len(got.Events) != 1 ||
		got.StatusDescription != "" || got.CreateIndex == 1 {
		t.Errorf("the node set fields of the servers: %+v", got)
	}
	own := stranger(t, g.s)
	own.node.SchedulingEligibility = nomad.NodeSchedulingIneligible // client { default_ineligible = true }
	if err := own.enter(""); err != nil {
		t.Fatal(err)
	}
	if got := g.stored(own).SchedulingEligibility; got != nomad.NodeSchedulingIneligible {
		t.Errorf("a node that joins as ineligible is %s", got)
	}
}

// A node may report its own drain as complete after its allocations have ended. It stays
// ineligible. An operator may end a drain at any time.
func TestNodeReportsItsDrainAsComplete(t *testing.T) {
	g := guard(t, nil)
	n, other := join(t, g.s.RPCAddr()), join(t, g.s.RPCAddr())
	g.must("Node.UpdateEligibility", &message.NodeUpdateEligibilityRequest{NodeID: other.node.ID, Eligibility: nomad.NodeSchedulingIneligible}, nil)
	g.must("Job.Register", &message.JobRegisterRequest{Job: batchJob("b", 1)}, nil)
	alloc := n.allocs(1)[0]
	n.report(nomad.AllocClientStatusRunning, alloc)
	drain := func(n *fakeNode) {
		err := g.s.Apply(within(t), nomad.NodeUpdateDrainRequestType, &message.NodeUpdateDrainRequest{NodeID: n.node.ID, DrainStrategy: &nomad.DrainStrategy{}})
		if err != nil {
			t.Fatal(err)
		}
	}
	end := func(secret string, n *fakeNode, eligible bool) error {
		return g.call(secret, "Node.UpdateDrain", &message.NodeUpdateDrainRequest{NodeID: n.node.ID, MarkEligible: eligible}, nil)
	}
	drain(n)
	if err := end(n.jwt, n, false); !isCoded(err, 400, "still has allocations") {
		t.Errorf("the end of a drain that is not complete: %v", err)
	}
	if err := end(other.jwt, n, false); !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("another node ends the drain: %v", err)
	}
	if err := end(n.jwt, n, true); !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("the node ends its drain and marks itself eligible: %v", err)
	}
	if got := g.stored(n); got.DrainStrategy == nil {
		t.Fatal("the drain ended")
	}
	if err := end(g.root, n, true); err != nil {
		t.Fatal(err)
	}
	if got := g.stored(n); got.DrainStrategy != nil || got.LastDrain.Status != nomad.DrainStatusCanceled || got.SchedulingEligibility != nomad.NodeSchedulingEligible {
		t.Errorf("after an operator ended its drain the node is %s, drain %+v, last %+v", got.SchedulingEligibility, got.DrainStrategy, got.LastDrain)
	}
	drain(n)
	n.report(nomad.AllocClientStatusComplete, alloc)
	if err := end(n.jwt, n, false); err != nil { // the servers may have ended it themselves
		t.Fatal(err)
	}
	got := g.stored(n)
	if got.DrainStrategy != nil || got.LastDrain.Status != nomad.DrainStatusComplete || got.SchedulingEligibility != nomad.NodeSchedulingIneligible {
		t.Errorf("after its drain the node is %s, drain %+v, last %+v", got.SchedulingEligibility, got.DrainStrategy, got.LastDrain)
	}
}
