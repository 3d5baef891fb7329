package surface_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/profile"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// The kinds of callers.
const (
	anonymous = "anonymous"
	badToken  = "bad token"
	workload  = "workload"
	sameNode  = "same node"
	nodeByID  = "same node by secret"
	otherNode = "other node"
	itself    = "server"
	peer      = "another server"
	farServer = "server of another region"
)

var everyone = []string{anonymous, workload, sameNode, nodeByID, otherNode, itself}

// anybody also includes callers whose tokens are valid only between servers.
var anybody = append([]string{badToken, peer, farServer}, everyone...)

// serverOnly lists the callers of methods for servers.
var serverOnly = []string{itself, peer}

// admitted lists the callers of the methods that are not open to everyone if ACLs are off. It is written by
// hand, not taken from the table of methods. A method whose right is in a policy needs no row.
var admitted = map[string][]string{
	"Eval.Dequeue": serverOnly, "Eval.Ack": serverOnly, "Eval.Nack": serverOnly, "Eval.Update": serverOnly, "Eval.Create": serverOnly,
	"Eval.Finish":  serverOnly,
	"Eval.Reblock": serverOnly, "Eval.Reap": serverOnly, "Plan.Submit": serverOnly, "Keyring.Update": serverOnly,
	"Deployment.Reap":      serverOnly,
	"NodeIdentity.Session": serverOnly, "Status.Regroup": serverOnly,
	// Keyring.Get is not supported. Methods of Client... are relayed to nodes.
	"Keyring.Get": serverOnly, "ClientHostVolume.Create": serverOnly, "ClientHostVolume.Delete": serverOnly,
	"ClientHostVolume.Register":        serverOnly,
	"ClientCSI.ControllerAttachVolume": serverOnly, "ClientCSI.ControllerCreateSnapshot": serverOnly,
	"ClientCSI.ControllerCreateVolume":   serverOnly,
	"ClientCSI.ControllerDeleteSnapshot": serverOnly, "ClientCSI.ControllerDeleteVolume": serverOnly,
	"ClientCSI.ControllerDetachVolume": serverOnly,
	"ClientCSI.ControllerExpandVolume": serverOnly, "ClientCSI.ControllerListSnapshots": serverOnly,
	"ClientCSI.ControllerListVolumes":    serverOnly,
	"ClientCSI.ControllerValidateVolume": serverOnly, "ClientCSI.NodeDetachVolume": serverOnly, "ClientCSI.NodeExpandVolume": serverOnly,
	"ServiceRegistration.Upsert": {sameNode, nodeByID, otherNode}, "CSIVolume.Claim": {sameNode, nodeByID, otherNode},
	"Node.UpdateAlloc":     {sameNode, nodeByID},
	"Node.GetClientAllocs": {sameNode, nodeByID},
	// Each node resolves the names of all services.
	"ServiceRegistration.Watch": {sameNode, nodeByID, otherNode},
	"Node.EmitEvents":           {sameNode, nodeByID},
	"Node.UpsertDriverSchemas":  {sameNode, nodeByID},
	"Alloc.GetAllocs":           {sameNode, nodeByID},
	"Alloc.SignIdentities":      {sameNode, nodeByID},
	"Node.UpdateStatus":         {sameNode, nodeByID},
	// A node does not change its own eligibility.
	"Node.UpdateEligibility": {anonymous, workload, nodeByID, itself},
	// Registration is authenticated by the secret ID in the request, whoever calls.
	"Node.Register": {anonymous, sameNode, nodeByID, otherNode, itself}, "Node.Challenge": {anonymous, sameNode, nodeByID, otherNode, itself},
	// The allocation is in the request body.
	"Spiffe.SignX509": {sameNode, nodeByID, otherNode}, "Spiffe.SignJWT": {sameNode, nodeByID, otherNode},
	// Operators introduce nodes; a caller with an identity is not an operator.
	"ACL.CreateClientIntroductionToken": {anonymous, nodeByID, itself},
	// Without access control, profiles are for operators.
	"Agent.Profile": {anonymous, nodeByID, itself}, "Agent.Host": {anonymous, nodeByID, itself},
	// An archive contains the root keys.
	"Operator.SnapshotSave": {anonymous, nodeByID, itself}, "Operator.SnapshotRestore": {anonymous, nodeByID, itself},
	// Operators write variables. A workload reads its own; nodes and servers read none.
	"Variables.Apply": {anonymous, nodeByID, itself}, "Variables.RenewLock": {anonymous, nodeByID, itself},
	"Variables.Read": {anonymous, workload, nodeByID, itself}, "Variables.List": {anonymous, workload, nodeByID, itself},
	"Variables.Tree": {anonymous, workload, nodeByID, itself},
	"Status.Ping":    anybody, "Status.Leader": anybody,
	"Status.Peers": anybody, "Status.RaftStats": anybody,
	"Status.HasNodeConn": anybody, "Region.List": anybody,
	"Keyring.ListPublic": anybody, "Keyring.GetConfig": anybody, "Spiffe.Bundle": anybody,
	// The credential is in the request body.
	"ACL.Login": anybody, "ACL.OIDCAuthURL": anybody, "ACL.OIDCCompleteAuth": anybody, "ACL.ListAuthMethods": anybody,
	// The secret is in the request body, or there is no token yet.
	"ACL.Bootstrap": anybody, "ACL.ResolveToken": anybody, "ACL.ExchangeOneTimeToken": anybody,
}

// access is a server with two nodes, the first of which has an allocation.
type access struct {
	s     *server.Server
	a, b  *servertest.FakeNode
	alloc *nomad.Allocation
	far   *server.Server // in another region, with its own cluster
}

// request returns a request that is valid, so that only the caller decides.
func (x access) request(m rpc.Method) rpc.Request {
	req := m.NewRequest()
	switch r := req.(type) {
	case *message.NodeRegisterRequest:
		node := *x.a.Node
		r.Node = &node
	case *message.NodeUpdateStatusRequest:
		r.NodeID, r.Status = x.a.Node.ID, nomad.NodeStatusReady
	case *message.DriverSchemaUpsertRequest:
		r.NodeID = x.a.Node.ID
	case *message.AllocUpdateRequest:
		r.Alloc = []*nomad.Allocation{{ID: x.alloc.ID, NodeID: x.a.Node.ID, ClientStatus: nomad.AllocClientStatusRunning}}
	case *message.EmitNodeEventsRequest:
		r.NodeEvents = map[string][]*nomad.NodeEvent{x.a.Node.ID: {{Message: "m", Subsystem: "Driver"}}}
	case *message.AllocsGetRequest:
		r.AllocIDs = []string{x.alloc.ID}
	case *message.AllocIdentitiesRequest:
		r.Identities = []*message.WorkloadIdentityRequest{{AllocID: x.alloc.ID,
			WIHandle: message.WIHandle{IdentityName: "aws", WorkloadIdentifier: "t"}}}
	case *message.EvalDequeueRequest:
		r.Schedulers, r.Timeout = []string{"none"}, time.Millisecond
	case *message.NodeSpecificRequest:
		r.NodeID = x.a.Node.ID
	case *message.VariablesReadRequest:
		r.Path = variable.Jobs
	case *message.ServiceWatchRequest:
		r.Services = []message.ServiceVersion{{Name: "web"}} // of another version, so that the call does not wait
	}
	return req
}

// call calls a method as one kind of caller.
func (x access) call(t *testing.T, m rpc.Method, who string) error {
	token := map[string]string{badToken: "e30.e30.AAAA", workload: x.alloc.SignedIdentities["t"], sameNode: x.a.JWT,
		nodeByID: x.a.Node.SecretID, otherNode: x.b.JWT,
		peer: ownToken(t, x.s), farServer: ownToken(t, x.far)}[who]
	req := x.request(m)
	switch r := req.(type) {
	case interface{ Query() *message.QueryOptions }:
		r.Query().Region, r.Query().AuthToken = "global", token
	case interface{ Write() *message.WriteRequest }:
		r.Write().Region, r.Write().AuthToken = "global", token
	case interface{ Caller() *message.NodeCall }:
		r.Caller().Region, r.Caller().AuthToken = "global", token
	}
	return servertest.Retry(t, func(ctx context.Context) error {
		if !m.Stream {
			if who == itself {
				return x.s.Call(ctx, m.Name, req, nil)
			}
			return x.a.Pool.Call(ctx, x.s.RPCAddr(), m.Name, req, nil)
		}
		open := func() (*rpc.Stream, error) { return x.a.Pool.Stream(ctx, x.s.RPCAddr(), m.Name) }
		if who == itself {
			open = func() (*rpc.Stream, error) { return x.s.Stream(ctx, m.Name) }
		}
		return servertest.StreamError(open, req)
	})
}

// ownToken returns the identity token with which a server calls others.
func ownToken(t *testing.T, s *server.Server) string {
	t.Helper()
	token, err := s.ServerToken(servertest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestMethods_EveryCaller(t *testing.T) {
	unbounded := func(c *server.Config) { c.RPCMaxConnsPerClient, c.Profiles = -1, profile.New(true) }
	for name, begin := range map[string]func(*testing.T) *server.Server{
		"direct": func(t *testing.T) *server.Server {
			s, _ := servertest.Start(t, unbounded)
			return s
		},
		"forwarded": func(t *testing.T) *server.Server {
			_, followers := servertest.Split(t, servertest.Cluster(t, 3, unbounded))
			return followers[0].Server
		},
	} {
		t.Run(name, func(t *testing.T) { everyMethod(t, begin(t)) })
	}
}

// everyMethod calls every method of a server as every kind of caller.
func everyMethod(t *testing.T, s *server.Server) {
	x := access{s: s, a: servertest.Join(t, s.RPCAddr())}
	servertest.Register(t, s, servertest.BatchJob("b", 1))
	x.alloc = x.a.Allocs(1)[0]
	x.b = servertest.Join(t, s.RPCAddr())
	x.far, _ = servertest.Start(t, func(c *server.Config) { c.Region = "far" })
	table := s.Methods()
	for name := range admitted {
		if !slices.ContainsFunc(table, func(m rpc.Method) bool { return m.Name == name }) {
			t.Errorf("unknown method %s", name)
		}
	}
	for _, m := range table {
		t.Run(m.Name, func(t *testing.T) {
			may, special := admitted[m.Name]
			if !special {
				may = everyone
			}
			for _, who := range anybody {
				err := x.call(t, m, who)
				denied := errors.Is(err, apierror.ErrPermissionDenied)
				if denied == slices.Contains(may, who) {
					t.Errorf("%s calls %s: %v", who, m.Name, err)
				}
				if err != nil && strings.Contains(err.Error(), "internal error") {
					t.Errorf("%s calls %s: the handler panicked", who, m.Name)
				}
			}
		})
	}
}

func TestSignedIdentities_OwnNodeOnly(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("b", 1))
	id := n.Allocs(1)[0].ID
	q := message.QueryOptions{Region: "global"}
	if a := servertest.Read[message.SingleAllocResponse](t, s, "Alloc.GetAlloc",
		&message.AllocSpecificRequest{AllocID: id, QueryOptions: q}); a.Alloc.SignedIdentities != nil {
		t.Error("Alloc.GetAlloc shows tokens")
	}
	for _, a := range servertest.Read[message.NodeAllocsResponse](t, s, "Node.GetAllocs",
		&message.NodeSpecificRequest{NodeID: n.Node.ID, QueryOptions: q}).Allocs {
		if a.SignedIdentities != nil {
			t.Error("Node.GetAllocs shows tokens")
		}
	}
	if got := servertest.Read[message.SingleNodeResponse](t, s, "Node.GetNode",
		&message.NodeSpecificRequest{NodeID: n.Node.ID, QueryOptions: q}); got.Node.SecretID != "" {
		t.Error("Node.GetNode shows the secret ID")
	}
	// A filter must not reveal hidden fields either.
	for method, req := range map[string]any{
		"Alloc.List": &message.AllocListRequest{QueryOptions: message.QueryOptions{Filter: `SignedIdentities is not empty`}},
	} {
		if got := servertest.Read[message.AllocListResponse](t, s, method, req); len(got.Allocations) != 0 {
			t.Errorf("a filter of %s sees tokens", method)
		}
	}
	byFirst := &message.NodeListRequest{QueryOptions: message.QueryOptions{Filter: `SecretID matches "."`}}
	if got := servertest.Read[message.NodeListResponse](t, s, "Node.List", byFirst); len(got.Nodes) != 0 {
		t.Error("a filter of Node.List sees secret IDs")
	}
}
