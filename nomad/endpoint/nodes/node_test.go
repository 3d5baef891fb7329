package nodes_test

import (
	"encoding/hex"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func TestHeartbeat_RenewsIdentity(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	for name, c := range map[string]struct {
		token string
		force bool
		want  bool
	}{
		"a fresh identity":  {n.JWT, false, false},
		"renewal is forced": {n.JWT, true, true},
		"the secret ID":     {n.Node.SecretID, false, true},
	} {
		out := n.Heartbeat(c.token, c.force)
		if got := out.SignedIdentity != nil; got != c.want {
			t.Errorf("%s: a new identity %v, want %v", name, got, c.want)
		}
		if out.HeartbeatTTL < 10*time.Second {
			t.Errorf("%s: TTL %v, want 10 s or more", name, out.HeartbeatTTL)
		}
		servertest.Equal(t, name+": leader", out.LeaderRPCAddr, s.RPCAddr())
		servertest.Equal(t, name+": nodes", out.NumNodes, 1)
		servertest.Equal(t, name+": servers", len(out.Servers), 1)
	}
}

func TestNodeRegister_NeedsTheSecret(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	other := *n.Node
	other.SecretID = nomad.NewID()
	err := n.Call("Node.Register", &message.NodeRegisterRequest{Node: &other, WriteRequest: n.Write("")}, nil)
	if err == nil || !strings.Contains(err.Error(), "node secret ID does not match") {
		t.Errorf("another secret: %v", err)
	}
	var out message.NodeUpdateResponse
	same := *n.Node
	n.Must("Node.Register", &message.NodeRegisterRequest{Node: &same, WriteRequest: n.Write(n.JWT)}, &out)
	if out.SignedIdentity != nil {
		t.Error("a node that changed nothing gets a new identity")
	}
	same.NodeClass = "large"
	n.Must("Node.Register", &message.NodeRegisterRequest{Node: &same, WriteRequest: n.Write(n.JWT)}, &out)
	if out.SignedIdentity == nil {
		t.Error("a node of another class keeps its identity")
	}
	got := servertest.Read[message.SingleNodeResponse](t, s, "Node.GetNode",
		&message.NodeSpecificRequest{NodeID: n.Node.ID, QueryOptions: servertest.Global})
	if got.Node.Status != nomad.NodeStatusReady || got.Node.NodeClass != "large" || got.Node.ComputedClass == "" {
		t.Errorf("after registering again the node is %q of class %q (%q)", got.Node.Status, got.Node.NodeClass, got.Node.ComputedClass)
	}
}

// soonSilent makes a node down some seconds after its last heartbeat. That is long enough for a
// test's steps on a busy machine.
func soonSilent(c *server.Config) {
	c.MinHeartbeatTTL, c.HeartbeatGrace, c.MaxHeartbeatsPerSecond = time.Second, 8*time.Second, 1e6
}

func TestNodeDown_AllocsReplaced(t *testing.T) {
	t.Parallel()
	s, _ := servertest.Start(t, soonSilent)
	silent := servertest.Join(t, s.RPCAddr())
	job := servertest.BatchJob("svc", 1)
	job.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Unlimited: true, Delay: 5 * time.Second, DelayFunction: "constant",
		MaxDelay: time.Hour}
	servertest.Register(t, s, job)
	lost := silent.Allocs(1)[0]
	silent.Report(nomad.AllocClientStatusRunning, lost)

	servertest.Eventually(t, func() bool {
		return silent.Stored(s).Status == nomad.NodeStatusDown
	})
	servertest.Eventually(t, func() bool {
		got := servertest.Read[message.SingleAllocResponse](t, s, "Alloc.GetAlloc",
			&message.AllocSpecificRequest{AllocID: lost.ID, QueryOptions: servertest.Global})
		return got.Alloc.ClientStatus == nomad.AllocClientStatusLost
	})
	err := silent.Call("Node.UpdateAlloc", &message.AllocUpdateRequest{Alloc: []*nomad.Allocation{{ID: lost.ID, NodeID: lost.NodeID,
		ClientStatus: nomad.AllocClientStatusRunning}}, WriteRequest: silent.Write(silent.JWT)}, nil)
	if err == nil || !strings.Contains(err.Error(), "is not allowed to update allocs") {
		t.Errorf("a node that is down updates allocations: %v", err)
	}
	// It is ready again after it reported its allocations.
	silent.Heartbeat(silent.JWT, false)
	if got := silent.Stored(s).Status; got != nomad.NodeStatusInit {
		t.Errorf("the returned node is %q, want %q", got, nomad.NodeStatusInit)
	}
	silent.Report(nomad.AllocClientStatusComplete, lost)
	silent.Heartbeat(silent.JWT, false)
	if got := silent.Stored(s).Status; got != nomad.NodeStatusReady {
		t.Errorf("the node that reported its allocations is %q", got)
	}
}

// An update of an allocation of another node does not stop the other updates of its call.
func TestUpdateAlloc_OneRefused(t *testing.T) {
	t.Parallel()
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("b", 1))
	alloc := n.Allocs(1)[0]
	servertest.Read[message.NodeEligibilityUpdateResponse](t, s, "Node.UpdateEligibility",
		&message.NodeUpdateEligibilityRequest{NodeID: n.Node.ID, Eligibility: nomad.NodeSchedulingIneligible})
	other := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("c", 1))
	foreign := other.Allocs(1)[0]

	update := func(as *servertest.FakeNode, allocs ...*nomad.Allocation) error {
		return as.Call("Node.UpdateAlloc", &message.AllocUpdateRequest{Alloc: allocs, WriteRequest: as.Write(as.JWT)}, &message.GenericResponse{})
	}
	status := func(a *nomad.Allocation, node string) *nomad.Allocation {
		return &nomad.Allocation{ID: a.ID, NodeID: node, ClientStatus: nomad.AllocClientStatusRunning}
	}
	for name, bad := range map[string]*nomad.Allocation{"without a node": status(foreign, ""),
		"of its node": status(foreign, other.Node.ID), "of this node": status(foreign, n.Node.ID)} {
		for _, updates := range [][]*nomad.Allocation{{bad, status(alloc, n.Node.ID)}, {bad}} {
			err := update(n, updates...)
			refused, ok := errors.AsType[*apierror.RefusedAllocs](err)
			if !ok || !slices.Equal(refused.IDs, []string{foreign.ID}) || !errors.Is(err, apierror.ErrPermissionDenied) ||
				!strings.HasSuffix(err.Error(), apierror.ErrPermissionDenied.Error()) {
				t.Errorf("an update %s: %v, want the ID and permission denied", name, err)
			}
		}
	}
	clientStatus := func(a *nomad.Allocation) string {
		return servertest.Read[message.SingleAllocResponse](t, s, "Alloc.GetAlloc",
			&message.AllocSpecificRequest{AllocID: a.ID, QueryOptions: servertest.Global}).Alloc.ClientStatus
	}
	if got := clientStatus(alloc); got != nomad.AllocClientStatusRunning {
		t.Errorf("the allocation of the node is %s, want running", got)
	}
	if got := clientStatus(foreign); got != nomad.AllocClientStatusPending {
		t.Errorf("the allocation of the other node is %s, want pending", got)
	}
	if err := update(n, status(alloc, n.Node.ID), nil); err == nil || errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("an update without allocation: %v", err)
	}
}

func TestNode_EligibilityAndDrain(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Read[message.NodeEligibilityUpdateResponse](t, s, "Node.UpdateEligibility",
		&message.NodeUpdateEligibilityRequest{NodeID: n.Node.ID, Eligibility: nomad.NodeSchedulingIneligible})
	out := servertest.Register(t, s, servertest.BatchJob("b", 1))
	servertest.Eventually(t, func() bool {
		e := servertest.Read[message.SingleEvalResponse](t, s, "Eval.GetEval",
			&message.EvalSpecificRequest{EvalID: out.EvalID, QueryOptions: servertest.Global})
		return e.Eval.Status == nomad.EvalStatusComplete && e.Eval.BlockedEval != ""
	})
	// Ending a drain that does not exist makes the node eligible, and the job is placed.
	servertest.Read[message.NodeDrainUpdateResponse](t, s, "Node.UpdateDrain",
		&message.NodeUpdateDrainRequest{NodeID: n.Node.ID, MarkEligible: true})
	n.Allocs(1)
}

func TestUpdateAlloc_FailedIsReplaced(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	job := servertest.BatchJob("b", 1)
	job.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Attempts: 1, Interval: time.Hour, Delay: 5 * time.Second,
		DelayFunction: "constant"}
	servertest.Register(t, s, job)
	first := n.Allocs(1)[0]
	n.Report(nomad.AllocClientStatusFailed, first)
	servertest.Eventually(t, func() bool {
		evals := servertest.Read[message.JobEvaluationsResponse](t, s, "Job.Evaluations", servertest.JobRequest("b"))
		for _, e := range evals.Evaluations {
			if e.TriggeredBy == nomad.EvalTriggerRetryFailedAlloc {
				return true
			}
		}
		return false
	})
}

// A failed allocation of a system job is not rescheduled. The next evaluation of the job places it again.
func TestUpdateAlloc_FailedSystemWaits(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	job := servertest.BatchJob("b", 1)
	job.Type, job.TaskGroups[0].ReschedulePolicy = nomad.JobTypeSystem, nil
	servertest.Register(t, s, job)
	n.Report(nomad.AllocClientStatusFailed, n.Allocs(1)[0])
	for _, e := range servertest.Read[message.JobEvaluationsResponse](t, s, "Job.Evaluations", servertest.JobRequest("b")).Evaluations {
		if e.TriggeredBy == nomad.EvalTriggerRetryFailedAlloc {
			t.Errorf("evaluation %+v", e)
		}
	}
	var out message.JobRegisterResponse
	if err := s.Call(servertest.Context(t), "Job.Evaluate",
		&message.JobEvaluateRequest{JobID: "b", WriteRequest: message.WriteRequest{Region: "global", Namespace: "default"}}, &out); err != nil {
		t.Fatal(err)
	}
	n.Allocs(2)
}

// TestNode_MinimalReplies compares the answer of Status.Leader with hand-written bytes: a string
// without an enclosing struct.
func TestNode_MinimalReplies(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	if err := s.Ready(servertest.Context(t)); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", s.RPCAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	// {"Seq":1,"ServiceMethod":"Status.Leader"} {"Region":"global"}
	raw, _ := hex.DecodeString("01" + "82a353657101ad536572766963654d6574686f64ad5374617475732e4c6561646572" +
		"81a6526567696f6ea6676c6f62616c")
	conn.Write(raw)
	addr := s.RPCAddr()
	want := "83a54572726f72a0a353657101ad536572766963654d6574686f64ad5374617475732e4c6561646572" +
		hex.EncodeToString([]byte{0xa0 | byte(len(addr))}) + hex.EncodeToString([]byte(addr))
	got := make([]byte, len(want)/2)
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	if hex.EncodeToString(got) != want {
		t.Errorf("reply = %x\nwant    %s", got, want)
	}
}

// A node that was down and has nothing to report is ready at once.
func TestNode_IdleReturns(t *testing.T) {
	t.Parallel()
	s, _ := servertest.Start(t, soonSilent)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Eventually(t, func() bool { return n.Stored(s).Status == nomad.NodeStatusDown })
	n.Heartbeat(n.JWT, false)
	if got := n.Stored(s).Status; got != nomad.NodeStatusReady {
		t.Errorf("the returned idle node is %q", got)
	}
}

// An agent that is too old to store an identity uses its secret ID until it is upgraded.
func TestNode_NoIdentity(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	old := servertest.NewFakeNode(t, s)
	old.Node.Attributes["nomad.version"] = "1.10.5"
	if err := old.Register(""); err != nil || old.JWT != "" {
		t.Fatalf("Node.Register = %v, with an identity %t", err, old.JWT != "")
	}
	for range 2 {
		if out := old.Heartbeat(old.Node.SecretID, true); out.SignedIdentity != nil {
			t.Fatal("a heartbeat of an agent that is too old brings an identity")
		}
		if err := old.Register(old.Node.SecretID); err != nil || old.JWT != "" {
			t.Fatalf("Node.Register = %v, with an identity %t", err, old.JWT != "")
		}
	}
	node := *old.Node
	node.Attributes = map[string]string{"nomad.version": "2.0.6"}
	old.Node = &node
	if err := old.Register(old.Node.SecretID); err != nil || old.JWT == "" {
		t.Fatalf("the upgraded agent: Node.Register = %v, with an identity %t", err, old.JWT != "")
	}
	if out := old.Heartbeat(old.JWT, false); out.SignedIdentity != nil {
		t.Error("the upgraded agent's identity is renewed at once")
	}
}

// Identities of nodes expire, in pools that nodes create, in built-in pools and in pools with
// the shortest TTL.
func TestNodeIdentity_AlwaysExpires(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	servertest.Read[message.GenericResponse](t, s, "NodePool.UpsertNodePools", &message.NodePoolUpsertRequest{NodePools: []*nomad.NodePool{
		{Name: "unsaid"}, {Name: "hour", NodeIdentityTTL: time.Hour}, {Name: "instant", NodeIdentityTTL: 1}}})
	for pool, want := range map[string]time.Duration{"default": 24 * time.Hour, "made": 24 * time.Hour, "unsaid": 24 * time.Hour,
		"hour": time.Hour, "instant": time.Second} {
		n := servertest.NewFakeNode(t, s)
		n.Node.NodePool = pool
		if err := n.Register(""); err != nil {
			t.Fatal(err)
		}
		claims := servertest.Claims(t, n.JWT)
		end, ok := claims["exp"].(float64)
		if life := time.Duration(end-claims["iat"].(float64)) * time.Second; !ok || life != want {
			t.Errorf("an identity of pool %s lives for %v, want %v", pool, life, want)
		}
	}
}

// The key of a renewed identity is recorded at once, so that it is not garbage collected. A
// second renewal with the same key writes nothing.
func TestNodeIdentity_RenewalRecorded(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	before := n.Stored(s)
	servertest.Read[message.KeyringRotateRootKeyResponse](t, s, "Keyring.Rotate", &message.KeyringRotateRootKeyRequest{})
	out := n.Heartbeat(n.JWT, true)
	after := n.Stored(s)
	if out.SignedIdentity == nil || out.Index == 0 || after.IdentitySigningKeyID == before.IdentitySigningKeyID ||
		after.ModifyIndex != out.NodeModifyIndex {
		t.Errorf("after a renewal with another key (%d) the node is %+v", out.Index, after)
	}
	if out = n.Heartbeat(*out.SignedIdentity, true); out.SignedIdentity == nil || out.Index != 0 ||
		n.Stored(s).ModifyIndex != after.ModifyIndex {
		t.Errorf("a renewal with the same key was written at %d", out.Index)
	}
}

// A new node runs the system jobs, and not the sysbatch jobs that were registered before.
func TestNode_NewRunsSystemJobs(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	first := servertest.Join(t, s.RPCAddr())
	for _, kind := range []string{nomad.JobTypeSystem, nomad.JobTypeSysBatch} {
		job := servertest.BatchJob(kind, 1)
		job.Type = kind
		servertest.Register(t, s, job)
	}
	first.Allocs(2)
	second := servertest.Join(t, s.RPCAddr())
	if a := second.Allocs(1)[0]; a.JobID != nomad.JobTypeSystem {
		t.Errorf("the new node got an allocation of %s", a.JobID)
	}
	for kind, want := range map[string]int{nomad.JobTypeSystem: 1, nomad.JobTypeSysBatch: 0} {
		got := 0
		for _, e := range servertest.Read[message.JobEvaluationsResponse](t, s, "Job.Evaluations", servertest.JobRequest(kind)).Evaluations {
			if e.TriggeredBy == nomad.EvalTriggerNodeUpdate && e.NodeID == second.Node.ID {
				got++
			}
		}
		if got != want {
			t.Errorf("%s: %d evaluations of the new node, want %d", kind, got, want)
		}
	}
}
