package nodes_test

import (
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// An operator made the node ineligible. No method that the node can call with its credentials
// changes that, its drain, or what operators see.
func TestQuarantine_NodeCannotEnd(t *testing.T) {
	for name, enabled := range map[string]bool{"with ACLs": true, "without ACLs": false} {
		t.Run(name, func(t *testing.T) {
			s, _ := servertest.Start(t, func(c *server.Config) { c.Access.Enabled = enabled })
			g := servertest.NewACLServer(t, s)
			if enabled {
				out, err := g.Bootstrap("")
				if err != nil {
					t.Fatal(err)
				}
				g.Root = out.SecretID
			}
			n := servertest.Join(t, s.RPCAddr())
			g.Must("Node.UpdateEligibility", &message.NodeUpdateEligibilityRequest{NodeID: n.Node.ID,
				Eligibility: nomad.NodeSchedulingIneligible}, nil)
			credentials := []string{n.JWT, n.Node.SecretID}
			if !enabled {
				credentials = credentials[:1] // the secret ID is not verified, so the caller is anonymous
			}
			for method, attempts := range quarantineAttacks(n.Node) {
				for what, req := range attempts {
					for _, credential := range credentials {
						_ = g.Call(credential, method, req(), nil) // refused or without effect
						if now := storedNode(g, n); now.SchedulingEligibility != nomad.NodeSchedulingIneligible || now.DrainStrategy != nil ||
							now.LastDrain != nil {
							t.Fatalf("%s, %s: the node is %s, drain %+v, last drain %+v", method, what, now.SchedulingEligibility, now.DrainStrategy,
								now.LastDrain)
						}
					}
				}
			}
			for _, e := range storedNode(g, n).Events {
				if e.Subsystem != nomad.NodeEventSubsystemDriver && e.Message == forged {
					t.Errorf("the node forged an event of the subsystem %s", e.Subsystem)
				}
			}
			for _, credential := range credentials {
				err := g.Call(credential, "Node.UpdateDrain", &message.NodeUpdateDrainRequest{NodeID: n.Node.ID, MarkEligible: true}, nil)
				if !errors.Is(err, apierror.ErrPermissionDenied) {
					t.Errorf("a node that marks itself eligible gets %v", err)
				}
			}
			g.Must("Node.UpdateDrain", &message.NodeUpdateDrainRequest{NodeID: n.Node.ID, MarkEligible: true}, nil)
			if now := storedNode(g, n); now.SchedulingEligibility != nomad.NodeSchedulingEligible {
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
		"Node.UpdateStatus": {"ready": status(nomad.NodeStatusReady), "down": status(nomad.NodeStatusDown),
			"back": status(nomad.NodeStatusReady)},
		"Node.EmitEvents": {},
		"Node.Evaluate":   {"": func() rpc.Request { return &message.NodeEvaluateRequest{NodeID: n.ID} }},
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
func storedNode(g *servertest.ACLServer, n *servertest.FakeNode) *nomad.Node {
	g.Helper()
	return servertest.ReadWith[message.SingleNodeResponse](g, g.Root, "Node.GetNode", &message.NodeSpecificRequest{NodeID: n.Node.ID}).Node
}

// Fields that only servers set are not taken from the first registration either.
func TestQuarantine_ServerFieldsOfNewNode(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n := servertest.NewFakeNode(t, g.Server)
	key := nomad.NewID()
	n.Node.DrainStrategy, n.Node.LastDrain = &nomad.DrainStrategy{}, &nomad.DrainMetadata{Status: nomad.DrainStatusComplete}
	n.Node.LastMissedHeartbeatIndex, n.Node.LastAllocUpdateIndex, n.Node.IdentitySigningKeyID = 1, 1<<40, key
	n.Node.SchedulingEligibility, n.Node.Events = "whatever", []*nomad.NodeEvent{{Message: forged}}
	n.Node.StatusDescription, n.Node.CreateIndex = forged, 1
	if err := n.Register(""); err != nil {
		t.Fatal(err)
	}
	got := storedNode(g, n)
	if got.DrainStrategy != nil || got.LastDrain != nil || got.LastMissedHeartbeatIndex != 0 || got.LastAllocUpdateIndex != 0 ||
		got.IdentitySigningKeyID == key || got.SchedulingEligibility != nomad.NodeSchedulingEligible || len(got.Events) != 1 ||
		got.StatusDescription != "" || got.CreateIndex == 1 {
		t.Errorf("the node set fields of the servers: %+v", got)
	}
	own := servertest.NewFakeNode(t, g.Server)
	own.Node.SchedulingEligibility = nomad.NodeSchedulingIneligible // client { default_ineligible = true }
	if err := own.Register(""); err != nil {
		t.Fatal(err)
	}
	if got := storedNode(g, own).SchedulingEligibility; got != nomad.NodeSchedulingIneligible {
		t.Errorf("a node that joins as ineligible is %s", got)
	}
}

// A node may report its own drain as complete after its allocations have ended. It stays
// ineligible. An operator may end a drain at any time.
func TestQuarantine_DrainComplete(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n, other := servertest.Join(t, g.Server.RPCAddr()), servertest.Join(t, g.Server.RPCAddr())
	g.Must("Node.UpdateEligibility", &message.NodeUpdateEligibilityRequest{NodeID: other.Node.ID,
		Eligibility: nomad.NodeSchedulingIneligible}, nil)
	g.Must("Job.Register", &message.JobRegisterRequest{Job: servertest.BatchJob("b", 1)}, nil)
	alloc := n.Allocs(1)[0]
	n.Report(nomad.AllocClientStatusRunning, alloc)
	drain := func(n *servertest.FakeNode) {
		err := g.Server.Apply(servertest.Context(t), message.NodeUpdateDrainRequestType,
			&message.NodeUpdateDrainRequest{NodeID: n.Node.ID, DrainStrategy: &nomad.DrainStrategy{}})
		if err != nil {
			t.Fatal(err)
		}
	}
	end := func(secret string, n *servertest.FakeNode, eligible bool) error {
		return g.Call(secret, "Node.UpdateDrain", &message.NodeUpdateDrainRequest{NodeID: n.Node.ID, MarkEligible: eligible}, nil)
	}
	drain(n)
	if err := end(n.JWT, n, false); !servertest.IsCoded(err, 400, "still has allocations") {
		t.Errorf("the end of a drain that is not complete: %v", err)
	}
	if err := end(other.JWT, n, false); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("another node ends the drain: %v", err)
	}
	if err := end(n.JWT, n, true); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("the node ends its drain and marks itself eligible: %v", err)
	}
	if got := storedNode(g, n); got.DrainStrategy == nil {
		t.Fatal("the drain ended")
	}
	if err := end(g.Root, n, true); err != nil {
		t.Fatal(err)
	}
	if got := storedNode(g, n); got.DrainStrategy != nil || got.LastDrain.Status != nomad.DrainStatusCanceled ||
		got.SchedulingEligibility != nomad.NodeSchedulingEligible {
		t.Errorf("after an operator ended its drain the node is %s, drain %+v, last %+v", got.SchedulingEligibility, got.DrainStrategy,
			got.LastDrain)
	}
	drain(n)
	n.Report(nomad.AllocClientStatusComplete, alloc)
	if err := end(n.JWT, n, false); err != nil { // the servers may have ended it themselves
		t.Fatal(err)
	}
	got := storedNode(g, n)
	if got.DrainStrategy != nil || got.LastDrain.Status != nomad.DrainStatusComplete ||
		got.SchedulingEligibility != nomad.NodeSchedulingIneligible {
		t.Errorf("after its drain the node is %s, drain %+v, last %+v", got.SchedulingEligibility, got.DrainStrategy, got.LastDrain)
	}
}
