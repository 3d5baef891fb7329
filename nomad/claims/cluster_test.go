package claims_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/every"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/state/csitest"
)

// storage is the storage system of all nodes of a test: what is attached where, and the calls.
type storage struct {
	mu       sync.Mutex
	calls    []string
	attached map[string]bool // external IDs of nodes
	mounted  map[string]bool // node and allocation
	answer   func(ctx context.Context, call string) error
}

func newStorage() *storage {
	return &storage{attached: map[string]bool{}, mounted: map[string]bool{}}
}

// call records a call. Unless the answer is an error, it then runs do.
func (s *storage) call(ctx context.Context, call string, do func()) error {
	s.mu.Lock()
	s.calls = append(s.calls, call)
	answer := s.answer
	s.mu.Unlock()
	var err error
	if answer != nil {
		err = answer(ctx, call)
	}
	if err == nil {
		s.mu.Lock()
		do()
		s.mu.Unlock()
	}
	return err
}

func (s *storage) set(answer func(ctx context.Context, call string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *storage) count(begin string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if strings.HasPrefix(c, begin) {
			n++
		}
	}
	return n
}

// on reports whether the volume is attached to a node.
func (s *storage) on(n *csiNode) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attached["external-"+n.Node.ID]
}

// csiNode is a node with the plugin ebs.
type csiNode struct {
	*servertest.FakeNode
	s *storage
}

// joinCSI registers a ready node at the server with the address. The plugin is written to the log of the leader.
func joinCSI(t *testing.T, leader *server.Server, addr string, s *storage) *csiNode {
	t.Helper()
	n := &csiNode{s: s}
	answers, err := rpc.NewServer(rpc.Config{Auth: rpc.TrustPeer{}, Log: slog.New(slog.DiscardHandler), Methods: n.methods()})
	if err != nil {
		t.Fatal(err)
	}
	pool := rpc.NewPool(rpc.PoolConfig{Serve: answers})
	t.Cleanup(func() { pool.Close() })
	n.FakeNode = servertest.JoinWith(t, pool, addr)
	for _, e := range csitest.Place(n.Node, "ebs", csi.PluginMonolith) {
		if err := servertest.Retry(t, func(ctx context.Context) error { return leader.Apply(ctx, e.Type, e.Body) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Register(n.JWT); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { return n.status(leader) == nomad.NodeStatusReady })
	return n
}

func (n *csiNode) methods() []rpc.Method {
	attach := func(ctx context.Context, _ *rpc.Call,
		r *message.ClientCSIControllerAttachVolumeRequest) (*message.ClientCSIControllerAttachVolumeResponse, error) {
		return &message.ClientCSIControllerAttachVolumeResponse{}, n.s.call(ctx, "attach "+r.ClientCSINodeID, func() {
			n.s.attached[r.ClientCSINodeID] = true
		})
	}
	detach := func(ctx context.Context, _ *rpc.Call,
		r *message.ClientCSIControllerDetachVolumeRequest) (*message.ClientCSIControllerDetachVolumeResponse, error) {
		if r.Secrets["key"] != "hunter2" {
			return nil, errors.New("the detachment has no secrets")
		}
		return &message.ClientCSIControllerDetachVolumeResponse{}, n.s.call(ctx, "detach "+r.ClientCSINodeID, func() {
			delete(n.s.attached, r.ClientCSINodeID)
		})
	}
	unmount := func(ctx context.Context, _ *rpc.Call,
		r *message.ClientCSINodeDetachVolumeRequest) (*message.ClientCSINodeDetachVolumeResponse, error) {
		return &message.ClientCSINodeDetachVolumeResponse{}, n.s.call(ctx, "unmount "+n.Node.ID, func() {
			delete(n.s.mounted, n.Node.ID+r.AllocID)
		})
	}
	valid := func(context.Context, *rpc.Call,
		*message.ClientCSIControllerValidateVolumeRequest) (*message.ClientCSIControllerValidateVolumeResponse, error) {
		return &message.ClientCSIControllerValidateVolumeResponse{}, nil
	}
	return []rpc.Method{
		rpc.Handle("CSI.ControllerAttachVolume", rpc.Token, rpc.Here, attach).Needs(rpc.AnyToken),
		rpc.Handle("CSI.ControllerDetachVolume", rpc.Token, rpc.Here, detach).Needs(rpc.AnyToken),
		rpc.Handle("CSI.ControllerValidateVolume", rpc.Token, rpc.Here, valid).Needs(rpc.AnyToken),
		rpc.Handle("CSI.NodeDetachVolume", rpc.Token, rpc.Here, unmount).Needs(rpc.AnyToken),
	}
}

// status returns the status of the node.
func (n *csiNode) status(s *server.Server) string {
	if stored := s.State().Snapshot().Node(nil, n.Node.ID); stored != nil {
		return stored.Status
	}
	return ""
}

// setStatus reports a status of the node.
func (n *csiNode) setStatus(status string) {
	n.T.Helper()
	n.Must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: status, WriteRequest: n.Write(n.JWT)},
		&message.NodeUpdateResponse{})
}

// beats sends heartbeats until stop is called.
func (n *csiNode) beats() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		every.Tick(ctx, 200*time.Millisecond, func() {
			n.Pool.Call(ctx, n.Addr, "Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID,
				Status: nomad.NodeStatusReady, WriteRequest: n.Write(n.JWT)}, &message.NodeUpdateResponse{})
		})
	}()
	return func() { cancel(); <-done }
}

// of returns the allocation of a job on the node, when it exists.
func (n *csiNode) of(s *server.Server, job string) (found *nomad.Allocation) {
	n.T.Helper()
	servertest.Eventually(n.T, func() bool {
		for a := range s.State().Snapshot().AllocsByNode(nil, n.Node.ID) {
			if a.JobID == job && !a.TerminalStatus() {
				found = a
			}
		}
		return found != nil
	})
	return found
}

// mounts claims the volume for an allocation, mounts it, and reports that the allocation runs.
func (n *csiNode) mounts(a *nomad.Allocation) {
	n.T.Helper()
	req := &message.CSIVolumeClaimRequest{VolumeID: "data", AllocationID: a.ID, NodeID: n.Node.ID, Claim: csi.ClaimWrite,
		AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem, WriteRequest: n.Write(n.JWT)}
	req.Namespace = "default"
	var out message.CSIVolumeClaimResponse
	servertest.Eventually(n.T, func() bool { return n.Call("CSIVolume.Claim", req, &out) == nil }) // the connections are new
	if !n.s.on(n) {
		n.T.Fatalf("the volume is not attached to node %s", n.Node.ID)
	}
	n.s.mu.Lock()
	n.s.mounted[n.Node.ID+a.ID] = true
	n.s.mu.Unlock()
	n.Report(nomad.AllocClientStatusRunning, a)
}

// back lets a lost node return, which has unmounted the volume of an allocation meanwhile.
func (n *csiNode) back(a *nomad.Allocation) {
	n.T.Helper()
	n.setStatus(nomad.NodeStatusReady)
	req := &message.CSIVolumeUnpublishRequest{VolumeID: "data", WriteRequest: n.Write(n.JWT), Claim: &csi.Claim{AllocationID: a.ID,
		NodeID: n.Node.ID, Mode: csi.ClaimWrite, State: csi.ClaimNodeDetached}}
	req.Namespace = "default"
	n.Must("CSIVolume.Unpublish", req, &message.CSIVolumeUnpublishResponse{})
	n.Report(nomad.AllocClientStatusComplete, a)
}

// dataVolume registers the volume data, which one allocation may write to.
func dataVolume(t *testing.T, s *server.Server) {
	t.Helper()
	req := &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{{ID: "data", Name: "data", ExternalID: "ext", Namespace: "default",
		PluginID: "ebs", Secrets: csi.Secrets{"key": "hunter2"}, RequestedCapabilities: []*csi.Capability{
			{AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem}}}}}
	req.Region, req.Namespace = "global", "default"
	var last error
	servertest.Eventually(t, func() bool {
		last = s.Call(servertest.Context(t), "CSIVolume.Register", req, &message.CSIVolumeRegisterResponse{})
		if last != nil {
			t.Log(last)
		}
		return last == nil
	})
}

// writer returns a batch job that writes to the volume data.
func writer(id string) *nomad.Job {
	j := servertest.BatchJob(id, 1)
	j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: nomad.VolumeTypeCSI, Source: "data",
		AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem}}
	return j
}

// claimOf returns the claim of an allocation, as a server has it.
func claimOf(s *server.Server, alloc string) *csi.Claim {
	if v := s.State().Snapshot().CSIVolume(nil, "default", "data"); v != nil {
		return v.ClaimOf(alloc)
	}
	return nil
}

// TestServers_Next checks that the next job gets a volume as soon as the allocation of the first one has ended.
func TestServers_Next(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	st := newStorage()
	n := joinCSI(t, s, s.RPCAddr(), st)
	dataVolume(t, s)
	servertest.Register(t, s, writer("first"))
	a := n.of(s, "first")
	n.mounts(a)
	servertest.Register(t, s, writer("second"))
	servertest.Eventually(t, func() bool {
		for e := range s.State().Snapshot().EvalsByJob(nil, "default", "second") {
			if e.Status == nomad.EvalStatusBlocked {
				return true
			}
		}
		return false
	})
	n.Report(nomad.AllocClientStatusComplete, a)
	b := n.of(s, "second")
	if claimOf(s, a.ID) != nil || st.on(n) || len(st.mounted) > 0 {
		t.Errorf("the second allocation was placed before the volume was released: %q", st.calls)
	}
	n.mounts(b)
	if got := st.count("unmount"); got != 1 {
		t.Errorf("unmounted %d times: %q", got, st.calls)
	}
}

// TestServers_NodeDown checks that a volume of a node that is lost goes to another node, and that nothing waits for the lost one.
func TestServers_NodeDown(t *testing.T) {
	for name, c := range map[string]struct {
		before func(t *testing.T, s *server.Server)
		placed bool
	}{
		"running": {func(*testing.T, *server.Server) {}, true},
		"stopped before, and not acknowledged": {func(t *testing.T, s *server.Server) {
			if err := s.Call(servertest.Context(t), "Job.Deregister", &message.JobDeregisterRequest{JobID: "app",
				WriteRequest: message.WriteRequest{Region: "global", Namespace: "default"}}, &message.JobDeregisterResponse{}); err != nil {
				t.Fatal(err)
			}
			servertest.Eventually(t, func() bool {
				for a := range s.State().Snapshot().AllocsByJob(nil, "default", "app") {
					return a.DesiredStatus == nomad.AllocDesiredStatusStop
				}
				return false
			})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := servertest.Start(t, nil)
			st := newStorage()
			n1 := joinCSI(t, s, s.RPCAddr(), st)
			dataVolume(t, s)
			servertest.Register(t, s, writer("app"))
			a := n1.of(s, "app")
			n1.mounts(a)
			n2 := joinCSI(t, s, s.RPCAddr(), st)
			c.before(t, s)
			st.set(failing("unmount "+n1.Node.ID, "the lost node was called"))
			n1.setStatus(nomad.NodeStatusDown)
			servertest.Eventually(t, func() bool { return claimOf(s, a.ID) == nil })
			if st.on(n1) || st.count("detach external-"+n1.Node.ID) == 0 {
				t.Errorf("the volume is still attached to the lost node: %q", st.calls)
			}
			if st.count("unmount "+n1.Node.ID) > 0 {
				t.Error("the lost node was called")
			}
			if !c.placed {
				return
			}
			b := n2.of(s, "app")
			n2.mounts(b)
			n1.back(a) // too late
			if c := claimOf(s, b.ID); c == nil || c.State != csi.ClaimTaken || !st.on(n2) {
				t.Errorf("the claim of the new allocation is %+v after the return of the lost node: %q", c, st.calls)
			}
		})
	}
}

// TestServers_Disconnected checks that an allocation on a disconnected node keeps its claim until it is lost, and that the node
// is down then.
func TestServers_Disconnected(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) {
		c.MinHeartbeatTTL, c.HeartbeatGrace = time.Second, time.Second
	})
	st := newStorage()
	n1 := joinCSI(t, s, s.RPCAddr(), st)
	stop := n1.beats()
	dataVolume(t, s)
	job := writer("app")
	job.Type = nomad.JobTypeService
	replace := false
	job.TaskGroups[0].Disconnect = &nomad.DisconnectStrategy{LostAfter: 10 * time.Second, Replace: &replace, Reconcile: "best_score"}
	servertest.Register(t, s, job)
	a := n1.of(s, "app")
	n1.mounts(a)
	stop()
	servertest.Eventually(t, func() bool { // no heartbeat any more
		now := s.State().Snapshot().Alloc(nil, a.ID)
		return now.ClientStatus == nomad.AllocClientStatusUnknown
	})
	n1.Pool.Close()
	if c := claimOf(s, a.ID); c == nil || c.State != csi.ClaimTaken {
		t.Errorf("the claim of an unknown allocation is %+v", c)
	}
	defer joinCSI(t, s, s.RPCAddr(), st).beats()() // has a controller
	servertest.Eventually(t, func() bool { return claimOf(s, a.ID) == nil })
	if got := n1.status(s); got != nomad.NodeStatusDown {
		t.Errorf("the node is %s", got)
	}
	if st.on(n1) {
		t.Error("the volume is attached to the lost node")
	}
}

// TestServers_LeaderKilled ends the leader during the call of each plugin. The next leader repeats the step.
func TestServers_LeaderKilled(t *testing.T) {
	for _, step := range []string{"unmount", "detach"} {
		t.Run(step, func(t *testing.T) {
			all := servertest.Cluster(t, 3, nil)
			leader, followers := servertest.Split(t, all)
			st := newStorage()
			n := joinCSI(t, leader.Server, followers[0].RPCAddr(), st)
			dataVolume(t, leader.Server)
			servertest.Register(t, leader.Server, writer("app"))
			a := n.of(leader.Server, "app")
			n.mounts(a)
			reached := make(chan struct{})
			ended := servertest.Context(t).Done()
			var once sync.Once
			st.set(func(ctx context.Context, call string) error {
				first := false
				if strings.HasPrefix(call, step) {
					once.Do(func() { first = true; close(reached) })
				}
				if first { // the first leader gets no answer
					<-ended
					return errors.New("the test has ended")
				}
				return nil
			})
			n.Report(nomad.AllocClientStatusComplete, a)
			<-reached
			leader.Stop()
			servertest.Eventually(t, func() bool {
				return claimOf(followers[0].Server, a.ID) == nil && claimOf(followers[1].Server, a.ID) == nil
			})
			if st.on(n) || len(st.mounted) > 0 {
				t.Errorf("the volume is attached or mounted: %q", st.calls)
			}
			inOrder(t, st.calls)
		})
	}
}

// TestServers_GC checks that a core job retries releases with the token of the leader.
func TestServers_GC(t *testing.T) {
	g := servertest.StartACL(t, nil)
	s, st := g.Server, newStorage()
	n := joinCSI(t, s, s.RPCAddr(), st)
	v := &csi.Volume{ID: "data", Namespace: "default", PluginID: "ebs", Secrets: csi.Secrets{"key": "hunter2"},
		RequestedCapabilities: []*csi.Capability{
			{AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem}}}
	if err := s.Apply(servertest.Context(t), message.CSIVolumeRegisterRequestType,
		&message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{v}}); err != nil {
		t.Fatal(err)
	}
	job := writer("app")
	g.Must("Job.Register", &message.JobRegisterRequest{Job: job}, &message.JobRegisterResponse{})
	a := n.of(s, "app")
	n.mounts(a)
	st.set(failing("unmount", "device is busy"))
	n.Report(nomad.AllocClientStatusComplete, a)
	servertest.Eventually(t, func() bool { c := claimOf(s, a.ID); return c != nil && strings.Contains(c.Waits, "device is busy") })
	index := func() uint64 { return s.State().Snapshot().CSIVolume(nil, "default", "data").ModifyIndex }
	before := index()
	g.Must("System.GarbageCollect", &message.GenericRequest{}, &message.GenericResponse{})
	servertest.Eventually(t, func() bool { return index() > before })
	var out message.CSIVolumeGetResponse
	if err := g.Call(g.Root, "CSIVolume.Get", &message.CSIVolumeGetRequest{ID: "data",
		QueryOptions: message.QueryOptions{Region: "global", Namespace: "default"}}, &out); err != nil {
		t.Fatal(err)
	}
	if n := len(out.Volume.Releases); n != 1 {
		t.Fatalf("the volume has %d releases", n)
	}
	if r := out.Volume.Releases[0]; !strings.Contains(r.Waits, "device is busy") || r.Command == "" {
		t.Errorf("the release is %+v", r)
	}
	st.set(nil)
	servertest.Eventually(t, func() bool { return claimOf(s, a.ID) == nil })
}

// TestServers_Drain checks that a drain stops the plugin of a node after the node has unmounted the volumes.
func TestServers_Drain(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	st := newStorage()
	n := joinCSI(t, s, s.RPCAddr(), st)
	dataVolume(t, s)
	servertest.Register(t, s, writer("app"))
	a := n.of(s, "app")
	n.mounts(a)
	other := joinCSI(t, s, s.RPCAddr(), st)
	st.set(failing("unmount", "device is busy"))
	drain := &message.NodeUpdateDrainRequest{NodeID: n.Node.ID, WriteRequest: message.WriteRequest{Region: "global"},
		DrainStrategy: &nomad.DrainStrategy{DrainSpec: nomad.DrainSpec{Deadline: time.Hour}}}
	if err := s.Call(servertest.Context(t), "Node.UpdateDrain", drain, &message.NodeDrainUpdateResponse{}); err != nil {
		t.Fatal(err)
	}
	n.Report(nomad.AllocClientStatusComplete, a) // a drain waits for batch jobs
	servertest.Eventually(t, func() bool { return st.count("unmount") >= 3 })
	stopped := func() bool {
		p := s.State().Snapshot().CSIPlugin(nil, "ebs")
		return p.Nodes[n.Node.ID] == nil
	}
	if stopped() {
		t.Errorf("the plugin was stopped before the volume was unmounted: %q", st.calls)
	}
	st.set(nil)
	servertest.Eventually(t, stopped)
	if claimOf(s, a.ID) != nil || st.on(n) || s.State().Snapshot().CSIPlugin(nil, "ebs").Nodes[other.Node.ID] == nil {
		t.Errorf("the claim is %+v: %q", claimOf(s, a.ID), st.calls)
	}
}
