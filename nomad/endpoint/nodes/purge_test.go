package nodes_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// strict returns a server with ACLs where nodes need an introduction.
func strict(t *testing.T, enforcement string) *servertest.ACLServer {
	t.Helper()
	g := servertest.StartACL(t, func(c *server.Config) { c.Introduction.Enforcement = enforcement })
	g.Must("NodePool.UpsertNodePools", &message.NodePoolUpsertRequest{NodePools: []*nomad.NodePool{{Name: "gpu"}}}, nil)
	return g
}

// introduce creates an introduction token.
func introduced(g *servertest.ACLServer, req message.ACLCreateClientIntroductionTokenRequest) string {
	g.Helper()
	return servertest.ReadWith[message.ACLCreateClientIntroductionTokenResponse](g, g.Root, "ACL.CreateClientIntroductionToken", &req).JWT
}

// joined returns a node that was introduced.
func joinIntroduced(g *servertest.ACLServer, req message.ACLCreateClientIntroductionTokenRequest) *servertest.FakeNode {
	g.Helper()
	n := servertest.NewFakeNode(g.T, g.Server)
	if err := n.Register(introduced(g, req)); err != nil {
		g.Fatal(err)
	}
	n.Heartbeat(n.JWT, false)
	return n
}

// nextSecond waits until existing tokens are older than new ones: the times of tokens and
// purges are in whole seconds.
func nextSecond(t *testing.T) {
	t.Helper()
	second := time.Now().Unix()
	servertest.Eventually(t, func() bool { return time.Now().Unix() > second })
}

// purge purges a node after its tokens have become older than the purge.
func purge(g *servertest.ACLServer, n *servertest.FakeNode) {
	g.Helper()
	nextSecond(g.T)
	g.Must("Node.Deregister", &message.NodeDeregisterRequest{NodeID: n.Node.ID}, nil)
}

// An introduced node cannot change its pool, datacenter or name. That requires another
// introduction.
func TestPurge_EndsTheIdentity(t *testing.T) {
	for what, change := range map[string]func(*nomad.Node){
		"pool":       func(n *nomad.Node) { n.NodePool = "gpu" },
		"name":       func(n *nomad.Node) { n.Name = "other" },
		"datacenter": func(n *nomad.Node) { n.Datacenter = "dc2" },
	} {
		for _, enforcement := range []string{idtoken.EnforcementStrict, idtoken.EnforcementWarn} {
			t.Run(what+" "+enforcement, func(t *testing.T) {
				g := strict(t, enforcement)
				n := joinIntroduced(g, message.ACLCreateClientIntroductionTokenRequest{})
				before, first := *n.Node, n.JWT
				change(n.Node)
				for kind, token := range map[string]string{"its identity": first, "its secret": n.Node.SecretID, "nothing": ""} {
					err := n.Register(token)
					if refused := errors.Is(err, apierror.ErrPermissionDenied); refused != (enforcement == idtoken.EnforcementStrict) {
						t.Errorf("a node with %s: %v", kind, err)
					}
				}
				if enforcement != idtoken.EnforcementStrict {
					return
				}
				if stored := storedNode(g, n); !stored.SameAdmission(&before) {
					t.Fatalf("the node is %s in %s, %s", stored.Name, stored.NodePool, stored.Datacenter)
				}
				nextSecond(t)
				if err := n.Register(introduced(g, message.ACLCreateClientIntroductionTokenRequest{NodePool: n.Node.NodePool,
					NodeName: n.Node.Name})); err != nil {
					t.Fatalf("a node that is introduced again: %v", err)
				}
				if stored := storedNode(g, n); !stored.SameAdmission(n.Node) {
					t.Errorf("the node is %s in %s, %s", stored.Name, stored.NodePool, stored.Datacenter)
				}
				if out := n.Heartbeat(n.JWT, true); out.SignedIdentity == nil ||
					servertest.Claims(t, *out.SignedIdentity)["nomad_node_pool"] != n.Node.NodePool {
					t.Error("the renewed identity is not for the pool of the node")
				}
				if err := readAllocs(n, first); !errors.Is(err, apierror.ErrPermissionDenied) {
					t.Errorf("the previous identity: %v", err)
				}
			})
		}
	}
}

// reads makes a read as the node, with a credential.
func readAllocs(n *servertest.FakeNode, token string) error {
	return n.Call("Alloc.GetAllocs", &message.AllocsGetRequest{AllocIDs: []string{},
		QueryOptions: message.QueryOptions{Region: "global", AuthToken: token}}, nil)
}

// A purge invalidates the identities of a node and closes its connections. The node stays away
// until it is introduced again.
func TestPurge_StrictRefusesTheNode(t *testing.T) {
	g := strict(t, idtoken.EnforcementStrict)
	fleet := introduced(g, message.ACLCreateClientIntroductionTokenRequest{Uses: 10})
	n := servertest.NewFakeNode(t, g.Server)
	if err := n.Register(fleet); err != nil {
		t.Fatal(err)
	}
	n.Heartbeat(n.JWT, false)
	g.Must("Job.Register", &message.JobRegisterRequest{Job: servertest.BatchJob("b", 1)}, nil)
	alloc := n.Allocs(1)[0]
	old := n.JWT
	waiting := make(chan error, 1)
	go func() {
		waiting <- n.Pool.Call(servertest.Context(t), n.Addr, "Node.GetClientAllocs",
			&message.NodeSpecificRequest{NodeID: n.Node.ID, SecretID: n.Node.SecretID,
				QueryOptions: message.QueryOptions{Region: "global", AuthToken: old, MinQueryIndex: 1 << 40, MaxQueryTime: 4 * time.Minute}}, nil)
	}()
	servertest.Eventually(t, func() bool { return servertest.Connected(t, g.Server, n.Node.ID) })
	purge(g, n)
	if err := <-waiting; err == nil {
		t.Error("a read of the purged node does not end")
	}
	servertest.Eventually(t, func() bool { return !servertest.Connected(t, g.Server, n.Node.ID) })
	for rpc.Lost(n.Call("Node.GetClientAllocs",
		&message.NodeSpecificRequest{NodeID: n.Node.ID, QueryOptions: message.QueryOptions{Region: "global", AuthToken: old}}, nil)) {
		// The node has not noticed yet that its session was closed.
	}
	for method, req := range nodeCalls(n.Node, alloc) {
		for kind, token := range map[string]string{"identity": old, "secret": n.Node.SecretID} {
			err := n.Call(method, req(token), nil)
			gone := errors.Is(err, apierror.ErrNodeNotFound) && method == "Node.UpdateStatus"
			if !errors.Is(err, apierror.ErrPermissionDenied) && !gone {
				t.Errorf("%s with the %s of a purged node: %v", method, kind, err)
			}
		}
	}
	for kind, token := range map[string]string{"its identity": old, "its secret": n.Node.SecretID, "nothing": "", "its introduction": fleet} {
		if err := n.Register(token); !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("the purged node registers with %s: %v", kind, err)
		}
	}
	if err := n.Register(introduced(g, message.ACLCreateClientIntroductionTokenRequest{})); err != nil {
		t.Fatalf("the node that is introduced again: %v", err)
	}
	if err := readAllocs(n, old); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("its old identity: %v", err)
	}
	if err := readAllocs(n, n.JWT); err != nil {
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
			return &message.AllocIdentitiesRequest{QueryOptions: read(t), Identities: []*message.WorkloadIdentityRequest{
				{AllocID: alloc.ID, WIHandle: message.WIHandle{IdentityName: "aws", WorkloadIdentifier: "t"}}}}
		},
		"Node.UpdateAlloc": func(t string) rpc.Request {
			return &message.AllocUpdateRequest{WriteRequest: write(t),
				Alloc: []*nomad.Allocation{{ID: alloc.ID, NodeID: n.ID, ClientStatus: "running"}}}
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
func TestPurge_WarnAllowsTheNode(t *testing.T) {
	for _, enforcement := range []string{idtoken.EnforcementWarn, idtoken.EnforcementNone} {
		t.Run(enforcement, func(t *testing.T) {
			g := strict(t, enforcement)
			n := joinIntroduced(g, message.ACLCreateClientIntroductionTokenRequest{})
			old := n.JWT
			purge(g, n)
			servertest.Eventually(t, func() bool { return !servertest.Connected(t, g.Server, n.Node.ID) })
			// A call on the connection that the purge closes is still refused.
			servertest.Eventually(t, func() bool {
				err := n.Register(old)
				if err != nil && !errors.Is(err, apierror.ErrPermissionDenied) {
					t.Fatal(err)
				}
				return err == nil
			})
			if n.JWT == old {
				t.Error("the node keeps its revoked identity")
			}
			if err := readAllocs(n, old); !errors.Is(err, apierror.ErrPermissionDenied) {
				t.Errorf("the revoked identity: %v", err)
			}
			if err := readAllocs(n, n.JWT); err != nil {
				t.Errorf("the new identity: %v", err)
			}
		})
	}
}

// A node that the leader garbage collected returns with its own identity and its admission. An
// ineligible node does not, because it would become eligible.
func TestGarbageCollection_NodeReturns(t *testing.T) {
	g := strict(t, idtoken.EnforcementStrict)
	collect := func(n *servertest.FakeNode) {
		t.Helper()
		if err := g.Server.Apply(servertest.Context(t), message.NodeBatchDeregisterRequestType,
			&message.NodeBatchDeregisterRequest{NodeIDs: []string{n.Node.ID}}); err != nil {
			t.Fatal(err)
		}
	}
	n := joinIntroduced(g, message.ACLCreateClientIntroductionTokenRequest{})
	for what, change := range map[string]func(*nomad.Node){
		"pool": func(n *nomad.Node) { n.NodePool = "gpu" }, "name": func(n *nomad.Node) { n.Name = "x" },
		"datacenter": func(n *nomad.Node) { n.Datacenter = "x" },
		"":           func(*nomad.Node) {},
	} {
		collect(n)
		was := *n.Node
		change(n.Node)
		if err := n.Register(n.JWT); errors.Is(err, apierror.ErrPermissionDenied) != (what != "") {
			t.Errorf("the collected node with another %q: %v", what, err)
		}
		*n.Node = was
		if what != "" {
			if err := n.Register(n.JWT); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := readAllocs(n, n.JWT); err != nil {
		t.Errorf("its identity: %v", err)
	}
	g.Must("Node.UpdateEligibility", &message.NodeUpdateEligibilityRequest{NodeID: n.Node.ID, Eligibility: nomad.NodeSchedulingIneligible},
		nil)
	collect(n)
	if err := n.Register(n.JWT); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("a node that was ineligible comes back: %v", err)
	}
	if err := n.Register(introduced(g, message.ACLCreateClientIntroductionTokenRequest{})); err != nil {
		t.Errorf("after its introduction: %v", err)
	}
}

// A registration that the leader admitted before a purge, and that is applied after it, does
// not restore the node.
func TestPurge_DuringRegistration(t *testing.T) {
	g := strict(t, idtoken.EnforcementStrict)
	n := joinIntroduced(g, message.ACLCreateClientIntroductionTokenRequest{})
	purge(g, n)
	err := g.Server.Apply(servertest.Context(t), message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: n.Node, Strict: true})
	if !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("the entry: %v", err)
	}
}

// The list of purged nodes is part of snapshots and survives a restart.
func TestPurge_AfterRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "server")
	change := func(c *server.Config) {
		c.DataDir, c.Introduction.Enforcement = dir, idtoken.EnforcementStrict
	}
	s, stop := servertest.Start(t, change)
	n := servertest.NewFakeNode(t, s)
	fleet := servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{Uses: 5})
	if err := n.Register(fleet); err != nil {
		t.Fatal(err)
	}
	nextSecond(t)
	servertest.Read[message.NodeUpdateResponse](t, s, "Node.Deregister", &message.NodeDeregisterRequest{NodeID: n.Node.ID})
	stop()
	s, _ = servertest.Start(t, change)
	n.Addr = s.RPCAddr()
	for _, token := range []string{fleet, n.JWT, n.Node.SecretID, ""} {
		if err := n.Register(token); !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("the purged node registers: %v", err)
		}
	}
	if err := n.Register(""); err == nil || !strings.Contains(fmt.Sprint(err), "introduction") {
		t.Errorf("the error names no introduction: %v", err)
	}
}
