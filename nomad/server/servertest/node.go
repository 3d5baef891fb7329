package servertest

import (
	"context"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// NewFakeNode returns a node that no server has seen.
func NewFakeNode(t *testing.T, s *server.Server) *FakeNode {
	n := &FakeNode{T: t, Pool: rpc.NewPool(rpc.PoolConfig{}), Addr: s.RPCAddr(), Node: MockNode()}
	t.Cleanup(func() { n.Pool.Close() })
	return n
}

// Register registers a node with a token.
func (n *FakeNode) Register(token string) error {
	var out message.NodeUpdateResponse
	err := n.Call("Node.Register", &message.NodeRegisterRequest{Node: n.Node, CreateNodePool: true, WriteRequest: n.Write(token)}, &out)
	if err == nil && out.SignedIdentity != nil {
		n.JWT = *out.SignedIdentity
	}
	return err
}

// Heartbeat sends a heartbeat with a token and returns the reply.
func (n *FakeNode) Heartbeat(token string, force bool) message.NodeUpdateResponse {
	n.T.Helper()
	var out message.NodeUpdateResponse
	n.Must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusReady,
		ForceIdentityRenewal: force, WriteRequest: n.Write(token)}, &out)
	return out
}

// ClientServer returns a node's own RPC server.
func ClientServer(t *testing.T) *rpc.Server {
	t.Helper()
	node, err := rpc.NewServer(rpc.Config{Auth: rpc.TrustPeer{}, Methods: []rpc.Method{
		rpc.Handle("Allocations.Stats", rpc.Token, rpc.Here,
			func(_ context.Context, _ *rpc.Call, req *message.AllocStatsRequest) (*message.AllocStatsResponse, error) {
				if req.Task != "" {
					return nil, apierror.Errorf(404, "unknown task %q", req.Task)
				}
				return &message.AllocStatsResponse{Stats: &message.AllocResourceUsage{Timestamp: 7}}, nil
			}).Needs(rpc.AnyToken),
		rpc.HandleStream("FileSystem.Logs", rpc.Token, rpc.Here,
			func(_ context.Context, _ *rpc.Call, req *message.FsLogsRequest, st *rpc.Stream) error {
				return st.Encode(&message.StreamErrWrapper{Payload: []byte("log of " + req.Task)})
			}).Needs(rpc.AnyToken),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// FakeNode is a node that uses RPC over TCP and runs nothing.
type FakeNode struct {
	T    *testing.T
	Pool *rpc.Pool
	Addr string
	Node *nomad.Node
	JWT  string
}

// MockNode returns a node with resources for batchJob.
func MockNode() *nomad.Node {
	return &nomad.Node{
		ID: nomad.NewID(), SecretID: nomad.NewID(), Datacenter: "dc1", Name: "fake", NodePool: nomad.NodePoolDefault,
		Attributes: map[string]string{"nomad.version": "2.0.6", "kernel.name": "linux", "driver.mock_driver": "1",
			"nomad.service_discovery": "true"},
		Drivers: map[string]*nomad.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
		NodeResources: &nomad.NodeResources{
			Cpu:    nomad.LegacyNodeCpuResources{CpuShares: 4000, TotalCpuCores: 4},
			Memory: nomad.NodeMemoryResources{MemoryMB: 8192}, Disk: nomad.NodeDiskResources{DiskMB: 100 << 10},
			MinDynamicPort: 20000, MaxDynamicPort: 32000,
		},
		Status: nomad.NodeStatusInit,
	}
}

// Join registers a node and makes it ready.
func Join(t *testing.T, addr string) *FakeNode {
	t.Helper()
	pool := rpc.NewPool(rpc.PoolConfig{})
	t.Cleanup(func() { pool.Close() })
	return JoinWith(t, pool, addr)
}

// JoinWith is join with the caller's connections.
func JoinWith(t *testing.T, pool *rpc.Pool, addr string) *FakeNode {
	t.Helper()
	n := &FakeNode{T: t, Pool: pool, Addr: addr, Node: MockNode()}
	var out message.NodeUpdateResponse
	n.Must("Node.Register", &message.NodeRegisterRequest{Node: n.Node, WriteRequest: n.Write("")}, &out)
	if out.SignedIdentity == nil || *out.SignedIdentity == "" || out.HeartbeatTTL <= 0 {
		t.Fatalf("Node.Register = %+v, want an identity and a TTL", out)
	}
	n.JWT = *out.SignedIdentity
	n.Must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusReady,
		WriteRequest: n.Write(n.JWT)}, &out)
	return n
}

// Write returns the envelope of a write with a token.
func (n *FakeNode) Write(token string) message.WriteRequest {
	return message.WriteRequest{Region: "global", AuthToken: token}
}

// Call calls a method over the connections of the node.
func (n *FakeNode) Call(method string, req, resp any) error {
	return Retry(n.T, func(ctx context.Context) error { return n.Pool.Call(ctx, n.Addr, method, req, resp) })
}

// Must is Call, and fails the test on an error.
func (n *FakeNode) Must(method string, req, resp any) {
	n.T.Helper()
	if err := n.Call(method, req, resp); err != nil {
		n.T.Fatalf("%s: %v", method, err)
	}
}

// Allocs waits until the node has count allocations and returns them.
func (n *FakeNode) Allocs(count int) []*nomad.Allocation {
	n.T.Helper()
	var list message.NodeClientAllocsResponse
	for ctx := Context(n.T); len(list.Allocs) < count; {
		n.Must("Node.GetClientAllocs", &message.NodeSpecificRequest{NodeID: n.Node.ID, SecretID: n.Node.SecretID,
			QueryOptions: message.QueryOptions{
				Region: "global", AuthToken: n.JWT, MinQueryIndex: list.Index, MaxQueryTime: 5 * time.Second}}, &list)
		if ctx.Err() != nil {
			n.T.Fatalf("the node has %d allocations, want %d", len(list.Allocs), count)
		}
	}
	ids := make([]string, 0, len(list.Allocs))
	for id := range list.Allocs {
		ids = append(ids, id)
	}
	var full message.AllocsGetResponse
	n.Must("Alloc.GetAllocs", &message.AllocsGetRequest{AllocIDs: ids,
		QueryOptions: message.QueryOptions{Region: "global", AuthToken: n.JWT}}, &full)
	return full.Allocs
}

// Report reports the client status of allocations.
func (n *FakeNode) Report(status string, allocs ...*nomad.Allocation) {
	n.T.Helper()
	var updates []*nomad.Allocation
	for _, a := range allocs {
		updates = append(updates, &nomad.Allocation{ID: a.ID, NodeID: a.NodeID, ClientStatus: status})
	}
	n.Must("Node.UpdateAlloc", &message.AllocUpdateRequest{Alloc: updates, WriteRequest: n.Write(n.JWT)}, &message.GenericResponse{})
}

// Stored returns the node as a server has it, nil if it is unknown.
func (n *FakeNode) Stored(s *server.Server) *nomad.Node {
	n.T.Helper()
	return Read[message.SingleNodeResponse](n.T, s, "Node.GetNode", &message.NodeSpecificRequest{NodeID: n.Node.ID, QueryOptions: Global}).Node
}

// Connected reports whether a server has a session of the node.
func Connected(t testing.TB, s *server.Server, node string) bool {
	t.Helper()
	var out message.NodeConnQueryResponse
	if err := s.Call(Context(t), "Status.HasNodeConn", &message.NodeSpecificRequest{NodeID: node}, &out); err != nil {
		t.Fatalf("Status.HasNodeConn: %v", err)
	}
	return out.Connected
}
