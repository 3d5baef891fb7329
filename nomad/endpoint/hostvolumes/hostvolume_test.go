package hostvolumes_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// volumeNode answers the calls about volumes, and lists them.
type volumeNode struct {
	*servertest.FakeNode
	mu    sync.Mutex
	calls []string
	fails error
	// deleting is called during a delete, if it is not nil. Its result is that of the delete.
	deleting func() error
}

// joinWithVolumes registers a ready node that has the plugin mkdir.
func joinWithVolumes(t *testing.T, addr string) *volumeNode {
	t.Helper()
	n := &volumeNode{}
	record := func(call, token string) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if token != "" {
			call += " with a token"
		}
		n.calls = append(n.calls, call)
		return n.fails
	}
	create := func(_ context.Context, _ *rpc.Call, r *message.ClientHostVolumeCreateRequest) (*message.ClientHostVolumeCreateResponse, error) {
		return &message.ClientHostVolumeCreateResponse{VolumeName: r.Name, VolumeID: r.ID, HostPath: "/made/" + r.ID, CapacityBytes: 7},
			record("create "+r.Name, r.AuthToken)
	}
	registered := func(_ context.Context, _ *rpc.Call,
		r *message.ClientHostVolumeRegisterRequest) (*message.ClientHostVolumeRegisterResponse, error) {
		return &message.ClientHostVolumeRegisterResponse{}, record("register "+r.Name, r.AuthToken)
	}
	remove := func(_ context.Context, _ *rpc.Call, r *message.ClientHostVolumeDeleteRequest) (*message.ClientHostVolumeDeleteResponse, error) {
		err := record("delete "+r.Name, r.AuthToken)
		if n.deleting != nil {
			err = n.deleting()
		}
		return &message.ClientHostVolumeDeleteResponse{}, err
	}
	s, err := rpc.NewServer(rpc.Config{Auth: rpc.TrustPeer{}, Log: slog.New(slog.DiscardHandler), Methods: []rpc.Method{
		rpc.Handle("HostVolume.Create", rpc.Token, rpc.Here, create).Needs(rpc.AnyToken),
		rpc.Handle("HostVolume.Register", rpc.Token, rpc.Here, registered).Needs(rpc.AnyToken),
		rpc.Handle("HostVolume.Delete", rpc.Token, rpc.Here, remove).Needs(rpc.AnyToken),
	}})
	if err != nil {
		t.Fatal(err)
	}
	pool := rpc.NewPool(rpc.PoolConfig{Serve: s})
	t.Cleanup(func() { pool.Close() })
	n.FakeNode = servertest.JoinWith(t, pool, addr)
	n.Node.Attributes[hostvolume.PluginAttribute("mkdir")] = "0.0.1"
	if err := n.Register(n.JWT); err != nil {
		t.Fatal(err)
	}
	return n
}

// has registers the node with volumes, each as "name=ID".
func (n *volumeNode) has(volumes ...string) {
	n.T.Helper()
	n.Node.HostVolumes = map[string]*nomad.ClientHostVolumeConfig{}
	for _, v := range volumes {
		name, id, _ := strings.Cut(v, "=")
		n.Node.HostVolumes[name] = &nomad.ClientHostVolumeConfig{Name: name, ID: id}
	}
	if err := n.Register(n.JWT); err != nil {
		n.T.Fatal(err)
	}
}

// wantError fails the test unless err contains the text; "" means no error.
func wantError(t *testing.T, what string, err error, text string) {
	t.Helper()
	if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
		t.Errorf("%s: %v, want %q", what, err, text)
	}
}

func created(v hostvolume.Volume) *message.HostVolumeCreateRequest {
	return &message.HostVolumeCreateRequest{Volume: &v}
}

func of[T interface{ Write() *message.WriteRequest }](ns string, req T) T {
	req.Write().Namespace = ns
	return req
}

func TestHostVolumes_Checked(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n := joinWithVolumes(t, g.Server.RPCAddr())
	g.Must("Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "a"}, {Name: "b"}}}, nil)
	n.has("static=")
	ofA := g.TokenWith(`namespace "a" { capabilities = ["host-volume-create", "host-volume-delete"] }`)
	mkdir := func(name, ns string) hostvolume.Volume {
		return hostvolume.Volume{Name: name, Namespace: ns, PluginID: "mkdir"}
	}
	with := func(v hostvolume.Volume, edit func(*hostvolume.Volume)) hostvolume.Volume { edit(&v); return v }
	for what, c := range map[string]struct {
		secret, namespace string
		v                 hostvolume.Volume
		want              string
	}{
		"namespace of the body":     {ofA, "a", mkdir("x", "b"), `has the namespace "b", but the request has "a"`},
		"no right in the namespace": {ofA, "", mkdir("x", "b"), "Permission denied"},
		"request of another":        {ofA, "b", mkdir("x", ""), "Permission denied"},
		"plugin that climbs":        {g.Root, "", with(mkdir("x", "a"), func(v *hostvolume.Volume) { v.PluginID = "../mkdir" }), "plugin_id is"},
		"plugin with a slash":       {g.Root, "", with(mkdir("x", "a"), func(v *hostvolume.Volume) { v.PluginID = "mkdir/" }), "plugin_id is"},
		"plugin on its node": {g.Root, "", with(mkdir("x", "a"),
			func(v *hostvolume.Volume) { v.PluginID, v.NodeID = "other", n.Node.ID }),
			"is not feasible for volume: ${attr.plugins.host_volume.other.version} is_set"},
		"constraint of its node": {g.Root, "", with(mkdir("x", "a"), func(v *hostvolume.Volume) {
			v.NodeID, v.Constraints = n.Node.ID, []*nomad.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: "plan9"}}
		}), "is not feasible for volume: ${attr.kernel.name} = plan9"},
		"distinct hosts": {g.Root, "", with(mkdir("x", "a"),
			func(v *hostvolume.Volume) { v.Constraints = []*nomad.Constraint{{Operand: "distinct_hosts"}} }), "distinct_hosts compares allocations"},
		"unknown node": {g.Root, "", with(mkdir("x", "a"), func(v *hostvolume.Volume) { v.NodeID = nomad.NewID() }), "Unknown node"},
		"unknown pool": {g.Root, "", with(mkdir("x", "a"), func(v *hostvolume.Volume) { v.NodePool = "none" }),
			`node pool "none" does not exist`},
		"another pool": {g.Root, "", with(mkdir("x", "a"), func(v *hostvolume.Volume) { v.NodeID, v.NodePool = n.Node.ID, "gpu" }),
			`it is in node pool "default"`},
		"a static volume": {g.Root, "", with(mkdir("static", "a"), func(v *hostvolume.Volume) { v.NodeID = n.Node.ID }),
			`already exists on this node: the configuration of node`},
		"unknown ID": {g.Root, "", with(mkdir("x", "a"), func(v *hostvolume.Volume) { v.ID = nomad.NewID() }), "no such volume"},
		"capacities": {g.Root, "", with(mkdir("x", "a"),
			func(v *hostvolume.Volume) { v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes = 2, 1 }), "is less than capacity_min"},
		"access mode": {g.Root, "", with(mkdir("x", "a"), func(v *hostvolume.Volume) {
			v.RequestedCapabilities = []*nomad.VolumeCapability{{AccessMode: "multi-node-reader-only"}}
		}), "access_mode in capability"},
		"unknown namespace": {g.Root, "", mkdir("x", "none"), `Namespace "none" does not exist`},
	} {
		wantError(t, what, g.Call(c.secret, "HostVolume.Create", of(c.namespace, created(c.v)), &message.HostVolumeCreateResponse{}), c.want)
	}
	if len(n.calls) != 0 {
		t.Fatalf("refused requests reached the node: %q", n.calls)
	}

	var out message.HostVolumeCreateResponse
	wantError(t, "create", g.Call(ofA, "HostVolume.Create", of("a", created(mkdir("data", ""))), &out), "")
	v := out.Volume
	if v == nil {
		t.Fatal("no volume was created")
	}
	servertest.Equal(t, "HostPath", v.HostPath, "/made/"+v.ID)
	servertest.Equal(t, "CapacityBytes", v.CapacityBytes, 7)
	servertest.Equal(t, "NodeID", v.NodeID, n.Node.ID)
	servertest.Equal(t, "NodePool", v.NodePool, "default")
	servertest.Equal(t, "State", v.State, "pending")
	if v.CreateTime == 0 {
		t.Error("CreateTime = 0")
	}
	n.has("data=" + v.ID)
	if got := servertest.ReadWith[message.HostVolumeListResponse](g, g.Root, "HostVolume.List",
		&message.HostVolumeListRequest{QueryOptions: message.QueryOptions{Namespace: "*", Prefix: "da"}}); len(got.Volumes) != 1 ||
		got.Volumes[0].State != "ready" {
		t.Errorf("list: %+v", got)
	}
	ofB := g.TokenWith(`namespace "b" { capabilities = ["host-volume-delete", "host-volume-read"] }`)
	del := func(secret, ns string) error {
		return g.Call(secret, "HostVolume.Delete", of(ns, &message.HostVolumeDeleteRequest{VolumeID: v.ID}), &message.HostVolumeDeleteResponse{})
	}
	wantError(t, "delete in another namespace", del(ofB, "b"), "no such volume: "+v.ID)
	wantError(t, "delete without the right", del(ofB, "a"), "Permission denied")
	if got := servertest.ReadWith[message.HostVolumeListResponse](g, ofB, "HostVolume.List",
		&message.HostVolumeListRequest{QueryOptions: message.QueryOptions{Namespace: "*"}}); len(got.Volumes) != 0 {
		t.Errorf("a list shows volumes of other namespaces: %+v", got)
	}

	// The name is used on the only node, and an update cannot move the volume.
	wantError(t, "same name", g.Call(g.Root, "HostVolume.Create", created(mkdir("data", "b")), &out),
		"1 nodes had existing volume, 0 nodes filtered by node pool governance, 0 nodes were infeasible")
	moved := *v
	moved.NodeID = nomad.NewID()
	wantError(t, "moved", g.Call(g.Root, "HostVolume.Create", created(moved), &out), "its node ID "+n.Node.ID+" cannot change")

	n.fails = fmt.Errorf("the plugin failed")
	wantError(t, "a failing plugin", del(g.Root, "a"), "delete volume data on node "+n.Node.ID)
	n.fails = nil
	wantError(t, "delete", del(ofA, "a"), "")
	if got := strings.Join(n.calls, ", "); got != "create data, delete data, delete data" {
		t.Errorf("the node was called for %s", got)
	}
}

// A claim of another namespace looks missing, and stays.
func TestHostVolumes_ClaimsOfOtherNamespaces(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n := joinWithVolumes(t, g.Server.RPCAddr())
	g.Must("Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "a"}, {Name: "b"}}}, nil)
	var out message.HostVolumeCreateResponse
	g.Must("HostVolume.Create", created(hostvolume.Volume{Name: "data", Namespace: "b", PluginID: "mkdir"}), &out)
	n.has("data=" + out.Volume.ID)
	job := servertest.BatchJob("j", 1)
	job.Namespace = "b"
	job.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data", Sticky: true}}
	g.Must("Job.Register", &message.JobRegisterRequest{Job: job}, &message.JobRegisterResponse{})
	n.Allocs(1)
	list := func(secret, ns string) []*hostvolume.Claim {
		return servertest.ReadWith[message.TaskGroupVolumeClaimListResponse](g, secret, "TaskGroupHostVolumeClaim.List",
			&message.TaskGroupVolumeClaimListRequest{QueryOptions: message.QueryOptions{Namespace: ns}}).Claims
	}
	all := list(g.Root, "*")
	if len(all) != 1 || all[0].VolumeID != out.Volume.ID {
		t.Fatalf("claims are %+v", all)
	}
	ofA := g.TokenWith(`namespace "a" { capabilities = ["host-volume-delete", "host-volume-read"] }`)
	if got := list(ofA, "*"); len(got) != 0 {
		t.Errorf("a list shows claims of other namespaces: %+v", got)
	}
	del := func(secret, ns string) error {
		return g.Call(secret, "TaskGroupHostVolumeClaim.Delete", of(ns, &message.TaskGroupVolumeClaimDeleteRequest{ClaimID: all[0].ID}),
			&message.TaskGroupVolumeClaimDeleteResponse{})
	}
	wantError(t, "delete", del(ofA, "a"), "task group volume claim does not exist")
	wantError(t, "delete in its namespace", del(ofA, "b"), "task group volume claim does not exist")
	if len(list(g.Root, "b")) != 1 {
		t.Error("the claim was deleted")
	}
	wantError(t, "delete by its owner", del(g.TokenWith(`namespace "b" { capabilities = ["host-volume-delete"] }`), "b"), "")
	if len(list(g.Root, "*")) != 0 {
		t.Error("the claim remains")
	}
}

// The node is connected to another server than the leader. It gets no token of the servers. A volume whose node is not
// connected is deleted with force only.
func TestHostVolumes_NodeOfAnotherServer(t *testing.T) {
	leader, followers := servertest.Split(t, servertest.Cluster(t, 3, nil))
	n := joinWithVolumes(t, followers[0].RPCAddr())
	var out message.HostVolumeCreateResponse
	req := created(hostvolume.Volume{Name: "data", PluginID: "mkdir"})
	req.Region = "global"
	servertest.Eventually(t, func() bool { // the connection of the node is new
		err := leader.Call(servertest.Context(t), "HostVolume.Create", req, &out)
		return err == nil && out.Volume != nil
	})
	if got := n.calls[len(n.calls)-1]; got != "create data" {
		t.Errorf("the node was called for %q", got)
	}
	n.Pool.Close()
	del := func(force bool) error {
		return leader.Call(servertest.Context(t), "HostVolume.Delete",
			&message.HostVolumeDeleteRequest{VolumeID: out.Volume.ID, Force: force, WriteRequest: message.WriteRequest{Region: "global"}},
			&message.HostVolumeDeleteResponse{})
	}
	servertest.Eventually(t, func() bool {
		return strings.Contains(fmt.Sprint(del(false)), "which is not connected, without force=true")
	})
	wantError(t, "delete with force", del(true), "")
}
