package nodeclass_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/nodeclass"
)

func TestComputeClass(t *testing.T) {
	node := func(edit func(*nomad.Node)) string {
		n := &nomad.Node{ID: "1", Name: "a", Datacenter: "dc1", NodePool: "default",
			Attributes: map[string]string{"kernel.name": "linux", "unique.hostname": "a"},
			Meta:       map[string]string{"rack": "1"},
			Drivers:    map[string]*nomad.DriverInfo{"exec2": {Detected: true, Healthy: true}},
			NodeResources: &nomad.NodeResources{Devices: []*nomad.NodeDeviceResource{nil, {Vendor: "v", Type: "gpu", Name: "m",
				Instances:  []*nomad.NodeDevice{{ID: "a", Healthy: true}, {ID: "b", Healthy: true}},
				Attributes: map[string]*nomad.Attribute{"memory": {Int: new(int64(11)), Unit: "GiB"}, "unique.bus": {Int: new(int64(1))}}}}},
		}
		edit(n)
		return nodeclass.Of(n)
	}
	base := node(func(*nomad.Node) {})
	same := map[string]func(*nomad.Node){
		"id":              func(n *nomad.Node) { n.ID = "2" },
		"name":            func(n *nomad.Node) { n.Name = "b" },
		"unique":          func(n *nomad.Node) { n.Attributes["unique.hostname"] = "b" },
		"status":          func(n *nomad.Node) { n.Status = "down" },
		"device instance": func(n *nomad.Node) { n.NodeResources.Devices[1].Instances[0].ID = "c" },
		"device unique":   func(n *nomad.Node) { n.NodeResources.Devices[1].Attributes["unique.bus"].Int = new(int64(2)) },
	}
	differs := map[string]func(*nomad.Node){
		"datacenter":       func(n *nomad.Node) { n.Datacenter = "dc2" },
		"pool":             func(n *nomad.Node) { n.NodePool = "gpu" },
		"class":            func(n *nomad.Node) { n.NodeClass = "big" },
		"attribute":        func(n *nomad.Node) { n.Attributes["kernel.name"] = "darwin" },
		"meta":             func(n *nomad.Node) { n.Meta["rack"] = "2" },
		"driver":           func(n *nomad.Node) { n.Drivers["exec2"].Healthy = false },
		"device":           func(n *nomad.Node) { n.NodeResources.Devices[1].Name = "other" },
		"device health":    func(n *nomad.Node) { n.NodeResources.Devices[1].Instances[0].Healthy = false },
		"device attribute": func(n *nomad.Node) { n.NodeResources.Devices[1].Attributes["memory"].Int = new(int64(12)) },
		"device unit":      func(n *nomad.Node) { n.NodeResources.Devices[1].Attributes["memory"].Unit = "GB" },
		"key moved":        func(n *nomad.Node) { n.Attributes["rack"] = "1"; delete(n.Meta, "rack") },
	}
	for name, edit := range same {
		if got := node(edit); got != base {
			t.Errorf("%s changes the class", name)
		}
	}
	for name, edit := range differs {
		if got := node(edit); got == base {
			t.Errorf("%s does not change the class", name)
		}
	}
	for range 20 {
		if got := node(func(*nomad.Node) {}); got != base {
			t.Fatal("the class is not deterministic")
		}
	}
}
