package server_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// strict returns a server with ACLs where nodes need an introduction.
func strict(t *testing.T, enforcement string) *guarded {
	t.Helper()
	g := guard(t, func(c *server.Config) { c.Introduction.Enforcement = enforcement })
	g.must("NodePool.UpsertNodePools", &message.NodePoolUpsertRequest{NodePools: []*nomad.NodePool{{Name: "gpu"}}}, nil)
	return g
}

// introduce creates an introduction token.
func (g *guarded) introduce(req message.ACLCreateClientIntroductionTokenRequest) string {
	g.Helper()
	return got[message.ACLCreateClientIntroductionTokenResponse](g, g.root, "ACL.CreateClientIntroductionToken", &req).JWT
}

// joined returns a node that was introduced.
func (g *guarded) joined(req message.ACLCreateClientIntroductionTokenRequest) *fakeNode {
	g.Helper()
	n := stranger(g.T, g.s)
	if err := n.enter(g.introduce(req)); err != nil {
		g.Fatal(err)
	}
	n.beat(n.jwt, false)
	return n
}

// nextSecond waits until existing tokens are older than new ones: the times of tokens and
// purges are in whole seconds.
func nextSecond(t *testing.T) {
	t.Helper()
	second := time.Now().Unix()
	eventually(t, func() bool { return time.Now().Unix() > second })
}

// purge purges a node after its tokens have become older than the purge.
func (g *guarded) purge(n *fakeNode) {
	g.Helper()
	nextSecond(g.T)
	g.must("Node.Deregister", &message.NodeDeregisterRequest{NodeID: n.node.ID}, nil)
}

// An introduced node cannot change its pool, datacenter or name. That requires another
// introduction.
func TestAdmissionBindsTheNode(t *testing.T) {
	for what, change := range map[string]func(*nomad.Node){
		"pool":       func(n *nomad.Node) { n.NodePool = "gpu" },
		"name":       func(n *nomad.Node) { n.Name = "other" },
		"datacenter": func(n *nomad.Node) { n.Datacenter = "dc2" },
	} {
		for _, enforcement := range []string{nomad.NodeIntroductionEnforcementStrict, nomad.NodeIntroductionEnforcementWarn} {
			t.Run(what+" "+enforcement, func(t *testing.T) {
				g := strict(t, enforcement)
				n := g.joined(message.ACLCreateClientIntroductionTokenRequest{})
				before, first := *n.node, n.jwt
				change(n.node)
				for kind, token := range map[string]string{"its identity": first, "its secret": n.node.SecretID, "nothing": ""} {
					err := n.enter(token)
					if refused := errors.Is(err, nomad.ErrPermissionDenied); refused != (enforcement == nomad.NodeIntroductionEnforcementStrict) {
						t.Errorf("a node with %s: %v", kind, err)
					}
				}
				if enforcement != nomad.NodeIntroductionEnforcementStrict {
					return
				}
				if stored := g.stored(n); !stored.SameAdmission(&before) {
					t.Fatalf("the node is %s in %s, %s", stored.Name, stored.NodePool, stored.Datacenter)
				}
				nextSecond(t)
				if err := n.enter(g.introduce(message.ACLCreateClientIntroductionTokenRequest{NodePool: n.node.NodePool, NodeName: n.node.Name})); err != nil {
					t.Fatalf("a node that is introduced again: %v", err)
				}
				if stored := g.stored(n); !stored.SameAdmission(n.node) {
					t.Errorf("the node is %s in %s, %s", stored.Name, stored.NodePool, stored.Datacenter)
				}
				if out := n.beat(n.jwt, true); out.SignedIdentity == nil || claimsOf(t, *out.SignedIdentity)["nomad_node_pool"] != n.node.NodePool {
					t.Error("the renewed identity is not for the pool of the node")
				}
				if err := n.reads(first); !errors.Is(err, nomad.ErrPermissionDenied) {
					t.Errorf("the previous identity: %v", err)
				}
			})
		}
	}
}

// reads makes a read as the node, with a credential.
func (n *fakeNode) reads(token string) error {
	return n.call("Alloc.GetAllocs", &message.AllocsGetRequest{AllocIDs: []string{}, QueryOptions: message.QueryOptions{Region: "global", AuthToken: token}}, nil)
}

// A purge invalidates the identities of a node and closes its connections. The node stays away
// until it is introduced again.
func TestPurgedNodeStaysAway(t *testing.T) {
	g := strict(t, nomad.NodeIntroductionEnforcementStrict)
	fleet := g.introduce(message.ACLCreateClientIntroductionTokenRequest{Uses: 10})
	n := stranger(t, g.s)
	if err := n.enter(fleet); err != nil {
		t.Fatal(err)
	}
	n.beat(n.jwt, false)
	g.must("Job.Register", &message.JobRegisterRequest{Job: batchJob("b", 1)}, nil)
	alloc := n.allocs(1)[0]
	old := n.jwt
	waiting := make(chan error, 1)
	go func() {
		waiting <- n.pool.Call(within(t), n.addr, "Node.GetClientAllocs", &message.NodeSpecificRequest{NodeID: n.node.ID, SecretID: n.node.SecretID,
			QueryOptions: message.QueryOptions{Region: "global", AuthToken: old, MinQueryIndex: 1 << 40, MaxQueryTime: 4 * time.Minute}}, nil)
	}()
	eventually(t, func() bool { return g.s.Connected(n.node.ID) })
	g.purge(n)
	if err := <-waiting; err == nil {
		t.Error("a read of the purged node does not end")
	}
	eventually(t, func() bool { return !g.s.Connected(n.node.ID) })
	for rpc.Lost(n.call("Node.GetClientAllocs", &message.NodeSpecificRequest{NodeID: n.node.ID, QueryOptions: message.QueryOptions{Region: "global", AuthToken: old}}, nil)) {
		// The node has not noticed yet that its session was closed.
	}
	for method, req := range nodeCalls(n.node, alloc) {
		for kind, token := range map[string]string{"identity": old, "secret": n.node.SecretID} {
			err := n.call(method, req(token), nil)
			gone := errors.Is(err, nomad.ErrNodeNotFound) && method == "Node.UpdateStatus"
			if !errors.Is(err, nomad.ErrPermissionDenied) && !gone {
				t.Errorf("%s with the %s of a purged node: %v", method, kind, err)
			}
		}
	}
	for kind, token := range map[string]string{"its identity": old, "its secret": n.node.SecretID, "nothing": "", "its introduction": fleet} {
		if err := n.enter(token); !errors.Is(err, nomad.ErrPermissionDenied) {
			t.Errorf("the purged node registers with %s: %v", kind, err)
		}
	}
	if err := n.enter(g.introduce(message.ACLCreateClientIntroductionTokenRequest{})); err != nil {
		t.Fatalf("the node that is introduced again: %v", err)
	}
	if err := n.reads(old); !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("its old identity: %v", err)
	}
	if err := n.reads(n.jwt); err != nil {
		t.Errorf("its new identity: %v", err)
	}
}

// nodeCalls returns the calls that a node makes, with a token.
func nodeCalls(n *nomad.Node, alloc *nomad.Allocation) map[string]func(token string) rpc.Request {
	read := func(token string) message.QueryOptions {
		return message.QueryOptions{Region: "global", AuthToken: token}
	}
	write := func(token string) message.WriteRequest {
		return message.WriteRequest{Region: "global", AuthToken: token}
	}
	return map[string]func(token string) rpc.Request{
		"Node.GetClientAllocs": func(t string) rpc.Request {
			return &message.NodeSpecificRequest{NodeID: n.ID, SecretID: n.SecretID, QueryOptions: read(t)}
		},
		"Alloc.GetAllocs": func(t string) rpc.Request {
			return &message.AllocsGetRequest{AllocIDs: []string{alloc.ID}, QueryOptions: read(t)}
		},
		"Alloc.GetAlloc": func(t string) rpc.Request {
			return &message.AllocSpecificRequest{AllocID: alloc.ID, QueryOptions: read(t)}
		},
		"Alloc.SignIdentities": func(t string) rpc.Request {
			return &message.AllocIdentitiesRequest{QueryOptions: read(t), Identities: []*nomad.WorkloadIdentityRequest{
				{AllocID: alloc.ID, WIHandle: nomad.WIHandle{IdentityName: "aws", WorkloadIdentifier: "t"}}}}
		},
		"Node.UpdateAlloc": func(t string) rpc.Request {
			return &message.AllocUpdateRequest{WriteRequest: write(t), Alloc: []*nomad.Allocation{{ID: alloc.ID, NodeID: n.ID, ClientStatus: "running"}}}
		},
		"Node.EmitEvents": func(t string) rpc.Request {
			return &message.EmitNodeEventsRequest{WriteRequest: write(t), NodeEvents: map[string][]*nomad.NodeEvent{n.ID: {{Subsystem: "Driver"}}}}
		},
		"Node.UpdateStatus": func(t string) rpc.Request {
			return &message.NodeUpdateStatusRequest{NodeID: n.ID, Status: "ready", ForceIdentityRenewal: true, WriteRequest: write(t)}
		},
		"Node.UpdateDrain": func(t string) rpc.Request {
			return &message.NodeUpdateDrainRequest{NodeID: n.ID, WriteRequest: write(t)}
		},
		"Node.GetNode":   func(t string) rpc.Request { return &message.NodeSpecificRequest{NodeID: n.ID, QueryOptions: read(t)} },
		"Status.Members": func(t string) rpc.Request { return &message.GenericRequest{QueryOptions: read(t)} },
		"ACL.WhoAmI":     func(t string) rpc.Request { return &message.GenericRequest{QueryOptions: read(t)} },
	}
}

// Without strict enforcement, a purged node may join again, with a new identity.
func TestPurgedNodeJoinsAgainWithAWarning(t *testing.T) {
	for _, enforcement := range []string{nomad.NodeIntroductionEnforcementWarn, nomad.NodeIntroductionEnforcementNone} {
		t.Run(enforcement, func(t *testing.T) {
			g := strict(t, enforcement)
			n := g.joined(message.ACLCreateClientIntroductionTokenRequest{})
			old := n.jwt
			g.purge(n)
			eventually(t, func() bool { return !g.s.Connected(n.node.ID) })
			// A call on the connection that the purge closes is still refused.
			eventually(t, func() bool {
				err := n.enter(old)
				if err != nil && !errors.Is(err, nomad.ErrPermissionDenied) {
					t.Fatal(err)
				}
				return err == nil
			})
			if n.jwt == old {
				t.Error("the node keeps its revoked identity")
			}
			if err := n.reads(old); !errors.Is(err, nomad.ErrPermissionDenied) {
				t.Errorf("the revoked identity: %v", err)
			}
			if err := n.reads(n.jwt); err != nil {
				t.Errorf("the new identity: %v", err)
			}
		})
	}
}

// A node that the leader garbage collected returns with its own identity and its admission. An
// ineligible node does not, because it would become eligible.
func TestCollectedNodeComesBackAsItWas(t *testing.T) {
	g := strict(t, nomad.NodeIntroductionEnforcementStrict)
	collect := func(n *fakeNode) {
		t.Helper()
		if err := g.s.Apply(within(t), nomad.NodeBatchDeregisterRequestType, &message.NodeBatchDeregisterRequest{NodeIDs: []string{n.node.ID}}); err != nil {
			t.Fatal(err)
		}
	}
	n := g.joined(message.ACLCreateClientIntroductionTokenRequest{})
	for what, change := range map[string]func(*nomad.Node){
		"pool": func(n *nomad.Node) { n.NodePool = "gpu" }, "name": func(n *nomad.Node) { n.Name = "x" }, "datacenter": func(n *nomad.Node) { n.Datacenter = "x" },
		"": func(*nomad.Node) {},
	} {
		collect(n)
		was := *n.node
		change(n.node)
		if err := n.enter(n.jwt); errors.Is(err, nomad.ErrPermissionDenied) != (what != "") {
			t.Errorf("the collected node with another %q: %v", what, err)
		}
		*n.node = was
		if what != "" {
			if err := n.enter(n.jwt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := n.reads(n.jwt); err != nil {
		t.Errorf("its identity: %v", err)
	}
	g.must("Node.UpdateEligibility", &message.NodeUpdateEligibilityRequest{NodeID: n.node.ID, Eligibility: nomad.NodeSchedulingIneligible}, nil)
	collect(n)
	if err := n.enter(n.jwt); !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("a node that was ineligible comes back: %v", err)
	}
	if err := n.enter(g.introduce(message.ACLCreateClientIntroductionTokenRequest{})); err != nil {
		t.Errorf("after its introduction: %v", err)
	}
}

// A registration that the leader admitted before a purge, and that is applied after it, does
// not restore the node.
func TestPurgeDuringRegistration(t *testing.T) {
	g := strict(t, nomad.NodeIntroductionEnforcementStrict)
	n := g.joined(message.ACLCreateClientIntroductionTokenRequest{})
	g.purge(n)
	err := g.s.Apply(within(t), nomad.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: n.node, Strict: true})
	if !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("the entry: %v", err)
	}
}

// The list of purged nodes is part of snapshots and survives a restart.
func TestPurgesSurviveARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "server")
	change := func(c *server.Config) {
		c.DataDir, c.Introduction.Enforcement = dir, nomad.NodeIntroductionEnforcementStrict
	}
	s, stop := start(t, change)
	n := stranger(t, s)
	fleet := introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{Uses: 5})
	if err := n.enter(fleet); err != nil {
		t.Fatal(err)
	}
	nextSecond(t)
	read[message.NodeUpdateResponse](t, s, "Node.Deregister", &message.NodeDeregisterRequest{NodeID: n.node.ID})
	stop()
	s, _ = start(t, change)
	n.addr = s.RPCAddr()
	for _, token := range []string{fleet, n.jwt, n.node.SecretID, ""} {
		if err := n.enter(token); !errors.Is(err, nomad.ErrPermissionDenied) {
			t.Errorf("the purged node registers: %v", err)
		}
	}
	if err := n.enter(""); err == nil || !strings.Contains(fmt.Sprint(err), "introduction") {
		t.Errorf("the error names no introduction: %v", err)
	}
}
