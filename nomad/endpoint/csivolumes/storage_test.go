package csivolumes_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// storage is a storage system. Nodes with its plugin "ebs" answer the calls of servers.
type storage struct {
	t *testing.T

	mu       sync.Mutex
	sizes    map[string]int64           // of the volumes, by external ID
	attached map[string]map[string]bool // nodes by external ID
	calls    []string                   // such as "CreateVolume db"
	secrets  []csi.Secrets              // of the calls
	tokens   int                        // calls that had a token of a server

	// before is called in each call, without the lock. Its error is that of the call. Nil does nothing.
	before func(method string) error
	// answer changes the reply of a call. Nil changes nothing.
	answer func(resp any)
}

func newStorage(t *testing.T) *storage {
	return &storage{t: t, sizes: map[string]int64{}, attached: map[string]map[string]bool{}}
}

// begin records a call, and returns its error.
func (st *storage) begin(method, what string, secrets csi.Secrets, call *message.NodeCall) error {
	st.mu.Lock()
	st.calls, st.secrets = append(st.calls, strings.TrimSpace(method+" "+what)), append(st.secrets, secrets)
	if call.AuthToken != "" {
		st.tokens++
	}
	before := st.before
	st.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(method)
}

// end returns the reply of a call.
func end[Resp any](st *storage, resp *Resp) (*Resp, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.answer != nil {
		st.answer(resp)
	}
	return resp, nil
}

// do changes the storage system, or reads it.
func (st *storage) do(fn func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	fn()
}

// took returns the calls since the last call of took, and forgets them.
func (st *storage) took() string {
	st.mu.Lock()
	defer st.mu.Unlock()
	calls := strings.Join(st.calls, ", ")
	st.calls, st.secrets = nil, nil
	return calls
}

// fails lets a method fail with a text, "" for none.
func (st *storage) fails(method, text string) {
	st.do(func() {
		st.before = func(m string) error {
			if m == method && text != "" {
				return fmt.Errorf("rpc error: code = Internal desc = %s", text)
			}
			return nil
		}
	})
}

// handle returns a method of the nodes. what is the text of a call for the list of calls.
func handle[Req, Resp any, P interface {
	*Req
	rpc.ServerCall
}](st *storage, method string, what func(P) (string, csi.Secrets), do func(P, *Resp)) rpc.Method {
	name := strings.TrimPrefix(strings.TrimPrefix(method, "Controller"), "x")
	return rpc.Handle[Req, Resp, P]("CSI."+method, rpc.Token, rpc.Here, func(_ context.Context, _ *rpc.Call, r *Req) (*Resp, error) {
		text, secrets := what(r)
		if err := st.begin(name, text, secrets, P(r).Caller()); err != nil {
			return nil, err
		}
		out := new(Resp)
		if do != nil {
			st.do(func() { do(r, out) })
		}
		return end(st, out)
	}).Needs(rpc.AnyToken)
}

// methods are those of the plugin.
func (st *storage) methods() []rpc.Method {
	return []rpc.Method{
		handle(st, "ControllerCreateVolume", func(r *message.ClientCSIControllerCreateVolumeRequest) (string, csi.Secrets) {
			return r.Name, r.Secrets
		}, func(r *message.ClientCSIControllerCreateVolumeRequest, out *message.ClientCSIControllerCreateVolumeResponse) {
			id := "vol-" + r.Name
			if st.sizes[id] == 0 {
				st.sizes[id] = max(r.CapacityMin, 1)
			}
			*out = message.ClientCSIControllerCreateVolumeResponse{ExternalVolumeID: id, CapacityBytes: st.sizes[id],
				VolumeContext: map[string]string{"made": "yes"}, Topologies: []*nomad.CSITopology{{Segments: map[string]string{"zone": "z1"}}}}
		}),
		handle[message.ClientCSIControllerDeleteVolumeRequest, message.ClientCSIControllerDeleteVolumeResponse](st, "ControllerDeleteVolume",
			func(r *message.ClientCSIControllerDeleteVolumeRequest) (string, csi.Secrets) {
				st.do(func() { delete(st.sizes, r.ExternalVolumeID) })
				return r.ExternalVolumeID, r.Secrets
			}, nil),
		handle[message.ClientCSIControllerValidateVolumeRequest, message.ClientCSIControllerValidateVolumeResponse](st,
			"ControllerValidateVolume", func(r *message.ClientCSIControllerValidateVolumeRequest) (string, csi.Secrets) {
				return r.VolumeID, r.Secrets
			}, nil),
		handle(st, "ControllerExpandVolume", func(r *message.ClientCSIControllerExpandVolumeRequest) (string, csi.Secrets) {
			return fmt.Sprint(r.ExternalVolumeID, " ", r.CapacityRange.RequiredBytes, "-", r.CapacityRange.LimitBytes), r.Secrets
		}, func(r *message.ClientCSIControllerExpandVolumeRequest, out *message.ClientCSIControllerExpandVolumeResponse) {
			st.sizes[r.ExternalVolumeID] = r.CapacityRange.RequiredBytes
			out.CapacityBytes, out.NodeExpansionRequired = r.CapacityRange.RequiredBytes, true
		}),
		handle(st, "ControllerAttachVolume", func(r *message.ClientCSIControllerAttachVolumeRequest) (string, csi.Secrets) {
			return r.VolumeID + " " + r.ClientCSINodeID, r.Secrets
		}, func(r *message.ClientCSIControllerAttachVolumeRequest, out *message.ClientCSIControllerAttachVolumeResponse) {
			if st.attached[r.VolumeID] == nil {
				st.attached[r.VolumeID] = map[string]bool{}
			}
			st.attached[r.VolumeID][r.ClientCSINodeID] = true
			out.PublishContext = map[string]string{"device": "/dev/" + r.VolumeID}
		}),
		handle(st, "ControllerDetachVolume", func(r *message.ClientCSIControllerDetachVolumeRequest) (string, csi.Secrets) {
			return r.VolumeID + " " + r.ClientCSINodeID, r.Secrets
		}, func(r *message.ClientCSIControllerDetachVolumeRequest, _ *message.ClientCSIControllerDetachVolumeResponse) {
			delete(st.attached[r.VolumeID], r.ClientCSINodeID)
		}),
		handle(st, "ControllerListVolumes", func(r *message.ClientCSIControllerListVolumesRequest) (string, csi.Secrets) {
			return fmt.Sprint(r.MaxEntries, r.StartingToken), nil
		}, func(_ *message.ClientCSIControllerListVolumesRequest, out *message.ClientCSIControllerListVolumesResponse) {
			for id, size := range st.sizes {
				out.Entries = append(out.Entries, &csi.ExternalStub{ExternalID: id, CapacityBytes: size})
			}
			out.Entries = append(out.Entries, nil,
				&csi.ExternalStub{ExternalID: "bad", IsAbnormal: true, Status: "\x1b[2J" + strings.Repeat("x", 9000)})
			out.NextToken = "next"
		}),
		handle(st, "ControllerCreateSnapshot", func(r *message.ClientCSIControllerCreateSnapshotRequest) (string, csi.Secrets) {
			return r.ExternalSourceVolumeID + " " + r.Name, r.Secrets
		}, func(r *message.ClientCSIControllerCreateSnapshotRequest, out *message.ClientCSIControllerCreateSnapshotResponse) {
			*out = message.ClientCSIControllerCreateSnapshotResponse{ID: "snap-" + r.Name, ExternalSourceVolumeID: r.ExternalSourceVolumeID,
				SizeBytes: 9, CreateTime: 100, IsReady: true}
		}),
		handle[message.ClientCSIControllerDeleteSnapshotRequest, message.ClientCSIControllerDeleteSnapshotResponse](st,
			"ControllerDeleteSnapshot", func(r *message.ClientCSIControllerDeleteSnapshotRequest) (string, csi.Secrets) {
				return r.ID, r.Secrets
			}, nil),
		handle(st, "ControllerListSnapshots", func(r *message.ClientCSIControllerListSnapshotsRequest) (string, csi.Secrets) {
			return fmt.Sprint(r.MaxEntries, r.StartingToken), r.Secrets
		}, func(_ *message.ClientCSIControllerListSnapshotsRequest, out *message.ClientCSIControllerListSnapshotsResponse) {
			out.Entries = []*csi.Snapshot{{ID: "snap-1", Secrets: csi.Secrets{"a": "leaked"}}, nil}
		}),
		handle[message.ClientCSINodeDetachVolumeRequest, message.ClientCSINodeDetachVolumeResponse](st, "NodeDetachVolume",
			func(r *message.ClientCSINodeDetachVolumeRequest) (string, csi.Secrets) { return r.VolumeID, nil }, nil),
		handle[message.ClientCSINodeExpandVolumeRequest, message.ClientCSINodeExpandVolumeResponse](st, "NodeExpandVolume",
			func(r *message.ClientCSINodeExpandVolumeRequest) (string, csi.Secrets) {
				return r.VolumeID + " " + r.Claim.AllocationID, nil
			}, nil),
	}
}

// csiNode is a node with the controller and the node plugin of a storage system.
type csiNode struct{ *servertest.FakeNode }

// plugin returns a job that runs the plugin "ebs" on every node.
func plugin() *nomad.Job {
	j := servertest.BatchJob("ebs", 1)
	j.Type = nomad.JobTypeSystem
	j.TaskGroups[0].Tasks[0].CSIPluginConfig = &nomad.TaskCSIPluginConfig{ID: "ebs", Type: csi.PluginMonolith}
	return j
}

// join registers a ready node that runs the plugin, whose job is registered. Its ID in the storage system is external.
func (st *storage) join(addr, external string) *csiNode {
	st.t.Helper()
	s, err := rpc.NewServer(rpc.Config{Auth: rpc.TrustPeer{}, Log: slog.New(slog.DiscardHandler), Methods: st.methods()})
	if err != nil {
		st.t.Fatal(err)
	}
	pool := rpc.NewPool(rpc.PoolConfig{Serve: s})
	st.t.Cleanup(func() { pool.Close() })
	n := &csiNode{servertest.JoinWith(st.t, pool, addr)}
	runs := n.alloc("ebs").ID
	n.Node.CSIControllerPlugins = map[string]*nomad.CSIInfo{"ebs": {PluginID: "ebs", AllocID: runs, Healthy: true, Provider: "aws",
		ProviderVersion:          "1",
		RequiresControllerPlugin: true, ControllerInfo: &nomad.CSIControllerInfo{SupportsCreateDelete: true, SupportsAttachDetach: true,
			SupportsListVolumes: true, SupportsCreateDeleteSnapshot: true, SupportsListSnapshots: true, SupportsExpand: true}}}
	n.Node.CSINodePlugins = map[string]*nomad.CSIInfo{"ebs": {PluginID: "ebs", AllocID: runs, Healthy: true, Provider: "aws",
		ProviderVersion:          "1",
		RequiresControllerPlugin: true, NodeInfo: &nomad.CSINodeInfo{ID: external, MaxVolumes: 100, SupportsExpand: true,
			AccessibleTopology: &nomad.CSITopology{Segments: map[string]string{"zone": "z1"}}}}}
	n.register()
	return n
}

// alloc waits until the node has an allocation of a job, and returns the newest.
func (n *csiNode) alloc(job string) (found *nomad.Allocation) {
	n.T.Helper()
	servertest.Eventually(n.T, func() bool {
		for _, a := range n.Allocs(1) {
			if a.JobID == job && (found == nil || a.CreateIndex > found.CreateIndex) {
				found = a
			}
		}
		return found != nil
	})
	return found
}

// register registers the node again, after a change.
func (n *csiNode) register() {
	n.T.Helper()
	if err := n.Register(n.JWT); err != nil {
		n.T.Fatal(err)
	}
}

// set changes the capabilities of the controller on the node.
func (n *csiNode) set(change func(*nomad.CSIInfo)) {
	n.T.Helper()
	info := *n.Node.CSIControllerPlugins["ebs"]
	able := *info.ControllerInfo
	info.ControllerInfo = &able
	change(&info)
	n.Node.CSIControllerPlugins["ebs"] = &info
	n.register()
}

// claim claims a volume for an allocation.
func (n *csiNode) claim(a *nomad.Allocation, volume string, mode csi.ClaimMode) (message.CSIVolumeClaimResponse, error) {
	var out message.CSIVolumeClaimResponse
	req := &message.CSIVolumeClaimRequest{VolumeID: volume, AllocationID: a.ID, NodeID: n.Node.ID, Claim: mode,
		AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem, WriteRequest: n.Write(n.JWT)}
	req.Namespace = a.Namespace
	return out, n.Call("CSIVolume.Claim", req, &out)
}

// unpublish reports that a claim has ended.
func (n *csiNode) unpublish(a *nomad.Allocation, volume string, state csi.ClaimState) error {
	req := &message.CSIVolumeUnpublishRequest{VolumeID: volume, Claim: &csi.Claim{AllocationID: a.ID, NodeID: n.Node.ID, State: state},
		WriteRequest: n.Write(n.JWT)}
	req.Namespace = a.Namespace
	return n.Call("CSIVolume.Unpublish", req, &message.CSIVolumeUnpublishResponse{})
}

// volume returns a request for a volume after an edit.
func volume(id string, edit ...func(*csi.Volume)) *csi.Volume {
	v := &csi.Volume{ID: id, Name: id, PluginID: "ebs", Secrets: csi.Secrets{"password": secret},
		RequestedCapabilities: []*csi.Capability{{AttachmentMode: nomad.VolumeAttachFilesystem, AccessMode: nomad.VolumeSingleNodeWriter}}}
	for _, fn := range edit {
		fn(v)
	}
	return v
}

// secret is the secret of volumes.
const secret = "hunter2-of-the-storage"

// using returns a job whose allocations write to a volume.
func using(id, volume string, edit ...func(*nomad.VolumeRequest)) *nomad.Job {
	j := servertest.BatchJob(id, 1)
	r := &nomad.VolumeRequest{Name: "v", Type: nomad.VolumeTypeCSI, Source: volume, AccessMode: nomad.VolumeSingleNodeWriter,
		AttachmentMode: nomad.VolumeAttachFilesystem}
	for _, fn := range edit {
		fn(r)
	}
	j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": r}
	return j
}

// wantError fails the test unless err contains the text; "" means no error.
func wantError(t *testing.T, what string, err error, text string) {
	t.Helper()
	if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
		t.Errorf("%s: %v, want %q", what, err, text)
	}
}

// cluster is a server without ACLs, a storage system and a node.
type cluster struct {
	*testing.T
	s  caller
	st *storage
	n  *csiNode
}

// caller is a server, or a member of a cluster.
type caller interface {
	Call(ctx context.Context, method string, req, resp any) error
}

// call calls a method in a namespace.
func (c *cluster) call(ns, method string, req, resp any) error {
	switch r := req.(type) {
	case interface{ Write() *message.WriteRequest }:
		r.Write().Region, r.Write().Namespace = "global", ns
	case interface{ Query() *message.QueryOptions }:
		r.Query().Region, r.Query().Namespace = "global", ns
	}
	return servertest.Retry(c.T, func(ctx context.Context) error { return c.s.Call(ctx, method, req, resp) })
}

func (c *cluster) create(volumes ...*csi.Volume) ([]*csi.Volume, error) {
	var out message.CSIVolumeCreateResponse
	err := c.call("", "CSIVolume.Create", &message.CSIVolumeCreateRequest{Volumes: volumes}, &out)
	return out.Volumes, err
}

func (c *cluster) registered(volumes ...*csi.Volume) ([]*csi.Volume, error) {
	var out message.CSIVolumeRegisterResponse
	err := c.call("", "CSIVolume.Register", &message.CSIVolumeRegisterRequest{Volumes: volumes}, &out)
	return out.Volumes, err
}

func (c *cluster) remove(ids ...string) error {
	return c.call("", "CSIVolume.Delete", &message.CSIVolumeDeleteRequest{VolumeIDs: ids}, &message.CSIVolumeDeleteResponse{})
}

func (c *cluster) deregister(force bool, ids ...string) error {
	return c.call("", "CSIVolume.Deregister", &message.CSIVolumeDeregisterRequest{VolumeIDs: ids, Force: force},
		&message.CSIVolumeDeregisterResponse{})
}

// get returns a volume of the default namespace, nil if it does not exist.
func (c *cluster) get(id string) *csi.Volume {
	c.Helper()
	var out message.CSIVolumeGetResponse
	if err := c.call("", "CSIVolume.Get", &message.CSIVolumeGetRequest{ID: id}, &out); err != nil {
		c.Fatal(err)
	}
	return out.Volume
}

// place registers a job and returns its allocation on the node.
func (c *cluster) place(j *nomad.Job) *nomad.Allocation {
	c.Helper()
	if err := c.call("", "Job.Register", &message.JobRegisterRequest{Job: j}, &message.JobRegisterResponse{}); err != nil {
		c.Fatal(err)
	}
	return c.n.alloc(j.ID)
}

// newCluster starts a server and a node.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	s, _ := servertest.Start(t, nil)
	servertest.Register(t, s, plugin())
	c := &cluster{T: t, s: s, st: newStorage(t)}
	c.n = c.st.join(s.RPCAddr(), "i-1")
	c.connected()
	return c
}

// connected waits until a server can call the plugin: the connection of the node is new.
func (c *cluster) connected() {
	c.Helper()
	var err error
	defer func() {
		if c.Failed() {
			c.Logf("CSIVolume.ListExternal: %v", err)
		}
	}()
	servertest.Eventually(c.T, func() bool {
		err = c.call("", "CSIVolume.ListExternal", &message.CSIVolumeExternalListRequest{PluginID: "ebs"},
			&message.CSIVolumeExternalListResponse{})
		return err == nil
	})
	c.st.took()
}
