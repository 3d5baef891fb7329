package nodes

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/nodeclass"
)

// TestEvaluates changes a node and checks whether its jobs are evaluated.
func TestEvaluates(t *testing.T) {
	ready := func() *nomad.Node {
		return &nomad.Node{
			ID: "n", Name: "one", Datacenter: "dc1", NodePool: "default", NodeClass: "a", Status: nomad.NodeStatusReady,
			Attributes:     map[string]string{"kernel.name": "linux", "unique.hostname": "one"},
			Meta:           map[string]string{"rack": "r1", "unique.owner": "me"},
			Drivers:        map[string]*nomad.DriverInfo{"exec2": {Detected: true, Healthy: true}},
			HostVolumes:    map[string]*nomad.ClientHostVolumeConfig{"v": {Name: "v", Path: "/v"}},
			CSINodePlugins: map[string]*nomad.CSIInfo{"well": {Healthy: true}, "ill": {}},
			NodeResources: &nomad.NodeResources{Devices: []*nomad.NodeDeviceResource{
				{Vendor: "x", Type: "gpu", Name: "y", Instances: []*nomad.NodeDevice{{ID: "1", Healthy: true}}}}},
		}
	}
	status := func(s string) func(*nomad.Node) { return func(n *nomad.Node) { n.Status = s } }
	for _, tt := range []struct {
		name      string
		from      string // the status before the change
		edit      func(*nomad.Node)
		evaluated bool
	}{
		{"nothing", nomad.NodeStatusReady, func(*nomad.Node) {}, false},
		{"a later heartbeat", nomad.NodeStatusReady, func(n *nomad.Node) { n.StatusUpdatedAt = 7 }, false},
		{"a fingerprint of a driver without a change", nomad.NodeStatusReady, func(n *nomad.Node) {
			n.Drivers["exec2"].UpdateTime, n.Drivers["exec2"].HealthDescription = time.Now(), "fine"
		}, false},
		{"down", nomad.NodeStatusReady, status(nomad.NodeStatusDown), true},
		{"disconnected", nomad.NodeStatusReady, status(nomad.NodeStatusDisconnected), true},
		{"initializing", nomad.NodeStatusReady, status(nomad.NodeStatusInit), false},
		{"still down", nomad.NodeStatusDown, status(nomad.NodeStatusDown), false},
		{"disconnected to down", nomad.NodeStatusDisconnected, status(nomad.NodeStatusDown), true},
		{"down to ready", nomad.NodeStatusDown, status(nomad.NodeStatusReady), true},
		{"init to ready", nomad.NodeStatusInit, status(nomad.NodeStatusReady), true},
		{"init to down", nomad.NodeStatusInit, status(nomad.NodeStatusDown), true},
		{"out of disconnected", nomad.NodeStatusDisconnected, status(nomad.NodeStatusInit), true},
		{"datacenter", nomad.NodeStatusReady, func(n *nomad.Node) { n.Datacenter = "dc2" }, true},
		{"pool", nomad.NodeStatusReady, func(n *nomad.Node) { n.NodePool = "gpu" }, true},
		{"name", nomad.NodeStatusReady, func(n *nomad.Node) { n.Name = "two" }, true},
		{"class", nomad.NodeStatusReady, func(n *nomad.Node) { n.NodeClass = "b" }, true},
		{"attribute", nomad.NodeStatusReady, func(n *nomad.Node) { n.Attributes["kernel.name"] = "bsd" }, true},
		{"unique attribute", nomad.NodeStatusReady, func(n *nomad.Node) { n.Attributes["unique.hostname"] = "two" }, true},
		{"meta", nomad.NodeStatusReady, func(n *nomad.Node) { n.Meta["rack"] = "r2" }, true},
		{"unique meta", nomad.NodeStatusReady, func(n *nomad.Node) { delete(n.Meta, "unique.owner") }, true},
		{"unhealthy driver", nomad.NodeStatusReady, func(n *nomad.Node) { n.Drivers["exec2"].Healthy = false }, true},
		{"undetected driver", nomad.NodeStatusReady, func(n *nomad.Node) { n.Drivers["exec2"].Detected = false }, true},
		{"new driver", nomad.NodeStatusReady, func(n *nomad.Node) { n.Drivers["docker"] = &nomad.DriverInfo{} }, true},
		{"host volume", nomad.NodeStatusReady, func(n *nomad.Node) { n.HostVolumes["v"].ReadOnly = true }, true},
		{"device", nomad.NodeStatusReady, func(n *nomad.Node) { n.NodeResources.Devices[0].Instances[0].Healthy = false }, true},
		{"healthy CSI plugin", nomad.NodeStatusReady, func(n *nomad.Node) { n.CSINodePlugins["ill"].Healthy = true }, true},
		{"new CSI plugin", nomad.NodeStatusReady, func(n *nomad.Node) { n.CSINodePlugins["new"] = &nomad.CSIInfo{Healthy: true} }, true},
		{"new unhealthy CSI plugin", nomad.NodeStatusReady, func(n *nomad.Node) { n.CSINodePlugins["new"] = &nomad.CSIInfo{} }, false},
		{"unhealthy CSI plugin", nomad.NodeStatusReady, func(n *nomad.Node) { n.CSINodePlugins["well"].Healthy = false }, false},
		{"a fingerprint of a CSI plugin", nomad.NodeStatusReady, func(n *nomad.Node) { n.CSINodePlugins["well"].UpdateTime = time.Now() }, false},
		{"attribute of a node that is down", nomad.NodeStatusDown, func(n *nomad.Node) {
			n.Status, n.Attributes["kernel.name"] = nomad.NodeStatusDown, "bsd"
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old := ready()
			old.Status, old.ComputedClass = tt.from, nodeclass.Of(old)
			node := codec.Copy(old)
			tt.edit(node)
			node.ComputedClass = nodeclass.Of(node)
			if got := evaluates(old, node); got != tt.evaluated {
				t.Errorf("evaluates() = %t, want %t", got, tt.evaluated)
			}
		})
	}
	for status, want := range map[string]bool{nomad.NodeStatusReady: true, nomad.NodeStatusInit: false} {
		n := ready()
		n.Status = status
		if got := evaluates(nil, n); got != want {
			t.Errorf("a new node that is %s: evaluates() = %t, want %t", status, got, want)
		}
	}
}

// The evaluations of a node: of its unfinished allocations, and of the system jobs of its pool.
func TestUnfinished(t *testing.T) {
	for _, tt := range []struct {
		kind, client, desired string
		want                  bool
	}{
		{nomad.JobTypeService, "running", "run", true},
		{nomad.JobTypeService, "running", "stop", true},
		{nomad.JobTypeService, "failed", "run", true},
		{nomad.JobTypeService, "failed", "stop", false},
		{nomad.JobTypeBatch, "running", "stop", true},
		{nomad.JobTypeBatch, "complete", "run", false},
		{nomad.JobTypeBatch, "failed", "run", false},
		{nomad.JobTypeSysBatch, "running", "run", true},
		{nomad.JobTypeSysBatch, "complete", "run", false},
		{nomad.JobTypeSystem, "lost", "run", false},
	} {
		a := &nomad.Allocation{Job: &nomad.Job{Type: tt.kind}, ClientStatus: tt.client, DesiredStatus: tt.desired}
		if got := unfinished(a); got != tt.want {
			t.Errorf("%s, %s, %s: unfinished() = %t, want %t", tt.kind, tt.client, tt.desired, got, tt.want)
		}
	}
}
