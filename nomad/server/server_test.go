package server_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// logger writes to the test's output if NOMAD_TEST_LOG is set.
func logger() *slog.Logger {
	if os.Getenv("NOMAD_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// start runs a server until the test ends or stop is called.
func start(t testing.TB, change func(*server.Config)) (s *server.Server, stop func()) {
	t.Helper()
	return startLogging(t, change, logger())
}

// startLogging is start with a log.
func startLogging(t testing.TB, change func(*server.Config), log *slog.Logger) (s *server.Server, stop func()) {
	t.Helper()
	// Fake nodes send no heartbeats by themselves.
	cfg := server.Config{Region: "global", Datacenter: "dc1", Name: "test", RPCAddr: testnet.Any, Version: "2.0.6", HeartbeatGrace: time.Hour}
	if change != nil {
		change(&cfg)
	}
	s, err := server.New(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
	}
	t.Cleanup(stop)
	return s, stop
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// leadersLost is how many leader changes a test tolerates during one call.
const leadersLost = 5

// led repeats a call while no leader accepts it. Calls wait for a leader, but on a busy machine
// an election may take longer. led also tolerates some lost leaders: a test's writes may be
// applied twice.
func led(t testing.TB, call func(context.Context) error) error {
	t.Helper()
	ctx := within(t)
	for lost := 0; ; {
		err := call(ctx)
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, nomad.ErrMaybeApplied):
			if lost++; lost > leadersLost {
				return err
			}
		case !errors.Is(err, nomad.ErrNoLeader) && !errors.Is(err, nomad.ErrNotReady):
			return err
		}
	}
}

// fakeNode is a node that uses RPC over TCP and runs nothing.
type fakeNode struct {
	t    *testing.T
	pool *rpc.Pool
	addr string
	node *nomad.Node
	jwt  string
}

// mockNode returns a node with resources for batchJob.
func mockNode() *nomad.Node {
	return &nomad.Node{
		ID: nomad.NewID(), SecretID: nomad.NewID(), Datacenter: "dc1", Name: "fake", NodePool: nomad.NodePoolDefault,
		Attributes: map[string]string{"nomad.version": "2.0.6", "kernel.name": "linux", "driver.mock_driver": "1", "nomad.service_discovery": "true"},
		Drivers:    map[string]*nomad.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
		NodeResources: &nomad.NodeResources{
			Cpu:    nomad.LegacyNodeCpuResources{CpuShares: 4000, TotalCpuCores: 4},
			Memory: nomad.NodeMemoryResources{MemoryMB: 8192}, Disk: nomad.NodeDiskResources{DiskMB: 100 << 10},
			MinDynamicPort: 20000, MaxDynamicPort: 32000,
		},
		Status: nomad.NodeStatusInit,
	}
}

// join registers a node and makes it ready.
func join(t *testing.T, addr string) *fakeNode {
	t.Helper()
	pool := rpc.NewPool(rpc.PoolConfig{})
	t.Cleanup(func() { pool.Close() })
	return joinBy(t, pool, addr)
}

// joinBy is join with the caller's connections.
func joinBy(t *testing.T, pool *rpc.Pool, addr string) *fakeNode {
	t.Helper()
	n := &fakeNode{t: t, pool: pool, addr: addr, node: mockNode()}
	var out message.NodeUpdateResponse
	n.must("Node.Register", &message.NodeRegisterRequest{Node: n.node, WriteRequest: n.write("")}, &out)
	if out.SignedIdentity == nil || *out.SignedIdentity == "" || out.HeartbeatTTL <= 0 {
		t.Fatalf("Node.Register = %+v, want an identity and a TTL", out)
	}
	n.jwt = *out.SignedIdentity
	n.must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.node.ID, Status: nomad.NodeStatusReady, WriteRequest: n.write(n.jwt)}, &out)
	return n
}

func (n *fakeNode) write(token string) message.WriteRequest {
	return message.WriteRequest{Region: "global", AuthToken: token}
}

func (n *fakeNode) call(method string, req, resp any) error {
	return led(n.t, func(ctx context.Context) error { return n.pool.Call(ctx, n.addr, method, req, resp) })
}

func (n *fakeNode) must(method string, req, resp any) {
	n.t.Helper()
	if err := n.call(method, req, resp); err != nil {
		n.t.Fatalf("%s: %v", method, err)
	}
}

// allocs waits until the node has count allocations and returns them.
func (n *fakeNode) allocs(count int) []*nomad.Allocation {
	n.t.Helper()
	var list message.NodeClientAllocsResponse
	for ctx := within(n.t); len(list.Allocs) < count; {
		n.must("Node.GetClientAllocs", &message.NodeSpecificRequest{NodeID: n.node.ID, SecretID: n.node.SecretID, QueryOptions: message.QueryOptions{
			Region: "global", AuthToken: n.jwt, MinQueryIndex: list.Index, MaxQueryTime: 5 * time.Second}}, &list)
		if ctx.Err() != nil {
			n.t.Fatalf("the node has %d allocations, want %d", len(list.Allocs), count)
		}
	}
	ids := make([]string, 0, len(list.Allocs))
	for id := range list.Allocs {
		ids = append(ids, id)
	}
	var full message.AllocsGetResponse
	n.must("Alloc.GetAllocs", &message.AllocsGetRequest{AllocIDs: ids, QueryOptions: message.QueryOptions{Region: "global", AuthToken: n.jwt}}, &full)
	return full.Allocs
}

// report reports the client status of allocations.
func (n *fakeNode) report(status string, allocs ...*nomad.Allocation) {
	n.t.Helper()
	var updates []*nomad.Allocation
	for _, a := range allocs {
		updates = append(updates, &nomad.Allocation{ID: a.ID, NodeID: a.NodeID, ClientStatus: status})
	}
	n.must("Node.UpdateAlloc", &message.AllocUpdateRequest{Alloc: updates, WriteRequest: n.write(n.jwt)}, &message.GenericResponse{})
}

// batchJob returns a job that fits on the fake node.
func batchJob(id string, count int) *nomad.Job {
	return &nomad.Job{ID: id, Name: id, Type: nomad.JobTypeBatch, Datacenters: []string{"*"}, TaskGroups: []*nomad.TaskGroup{{
		Name: "g", Count: count, Tasks: []*nomad.Task{{Name: "t", Driver: "mock_driver", Config: map[string]any{"run_for": "1s"},
			Identities: []*nomad.WorkloadIdentity{{Name: "aws", Audience: []string{"aws"}, File: true, TTL: time.Hour}}}},
	}}}
}

func register(t *testing.T, s *server.Server, job *nomad.Job) message.JobRegisterResponse {
	t.Helper()
	var out message.JobRegisterResponse
	req := &message.JobRegisterRequest{Job: job, WriteRequest: message.WriteRequest{Region: "global"}}
	if err := led(t, func(ctx context.Context) error { return s.Call(ctx, "Job.Register", req, &out) }); err != nil {
		t.Fatalf("register %s: %v", job.ID, err)
	}
	return out
}

// read makes an in-process read.
func read[T any](t *testing.T, s *server.Server, method string, req any) T {
	t.Helper()
	var out T
	if err := led(t, func(ctx context.Context) error { return s.Call(ctx, method, req, &out) }); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return out
}

func TestJobIsPlacedWithSignedIdentity(t *testing.T) {
	s, _ := start(t, nil)
	n := join(t, s.RPCAddr())
	reg := register(t, s, batchJob("b", 2))
	if reg.EvalID == "" || reg.JobModifyIndex == 0 {
		t.Fatalf("Job.Register = %+v", reg)
	}
	allocs := n.allocs(2)
	for _, a := range allocs {
		token := a.SignedIdentities["t"]
		if a.NodeID != n.node.ID || token == "" || a.SigningKeyID == "" {
			t.Fatalf("allocation on %s has identities of %d tasks", a.NodeID, len(a.SignedIdentities))
		}
		who := read[acls.WhoAmIResponse](t, s, "ACL.WhoAmI", &message.GenericRequest{QueryOptions: message.QueryOptions{AuthToken: token}})
		if c := who.Identity.Claims; c == nil || c.WorkloadIdentityClaims == nil || c.AllocationID != a.ID || c.TaskName != "t" {
			t.Errorf("the token has %+v", who.Identity)
		}
	}
	var signed message.AllocIdentitiesResponse
	ask := &message.AllocIdentitiesRequest{QueryOptions: message.QueryOptions{AuthToken: n.jwt, MinQueryIndex: allocs[0].CreateIndex - 1},
		Identities: []*nomad.WorkloadIdentityRequest{
			{AllocID: allocs[0].ID, WIHandle: nomad.WIHandle{IdentityName: "aws", WorkloadIdentifier: "t"}},
			{AllocID: allocs[0].ID, WIHandle: nomad.WIHandle{IdentityName: "gcp", WorkloadIdentifier: "t"}},
		}}
	n.must("Alloc.SignIdentities", ask, &signed)
	if len(signed.SignedIdentities) != 1 || signed.SignedIdentities[0].JWT == "" || signed.SignedIdentities[0].Expiration.IsZero() ||
		len(signed.Rejections) != 1 || signed.Rejections[0].Reason != nomad.WIRejectionReasonMissingIdentity {
		t.Errorf("Alloc.SignIdentities: %d signed, %+v", len(signed.SignedIdentities), signed.Rejections)
	}

	n.report(nomad.AllocClientStatusRunning, allocs...)
	n.report(nomad.AllocClientStatusComplete, allocs...)
	// The evaluation may still be in progress: the job is dead when it has ended too.
	eventually(t, func() bool {
		return read[message.SingleJobResponse](t, s, "Job.GetJob", jobRead("b")).Job.Status == nomad.JobStatusDead
	})
	// A token is invalid as soon as its allocation has ended.
	err := s.Call(within(t), "ACL.WhoAmI", &message.GenericRequest{QueryOptions: message.QueryOptions{AuthToken: allocs[0].SignedIdentities["t"]}}, nil)
	if !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("the token of an ended allocation: %v, want permission denied", err)
	}
}

func jobRead(id string) *message.JobSpecificRequest {
	return &message.JobSpecificRequest{JobID: id, QueryOptions: message.QueryOptions{Region: "global"}}
}
