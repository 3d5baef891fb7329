package csivolumes_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// A plugin that answers wrongly, or not at all, changes nothing in state.
func TestAnswers_Create(t *testing.T) {
	c := newCluster(t)
	if _, err := c.create(volume("first")); err != nil {
		t.Fatal(err)
	}
	type answer = message.ClientCSIControllerCreateVolumeResponse
	for name, r := range map[string]struct {
		answer func(*answer)
		want   string
	}{
		"no ID":             {func(a *answer) { a.ExternalVolumeID = "" }, "it returned no ID of the volume"},
		"a huge ID":         {func(a *answer) { a.ExternalVolumeID = strings.Repeat("x", 2<<10) }, "or more than 1024 bytes"},
		"an ID with lines":  {func(a *answer) { a.ExternalVolumeID = "a\nb" }, "has control characters"},
		"another's ID":      {func(a *answer) { a.ExternalVolumeID = "vol-first" }, "which is registered as another volume: use another name"},
		"negative capacity": {func(a *answer) { a.CapacityBytes = -1 }, "it returned the capacity -1"},
		"a huge context": {func(a *answer) { a.VolumeContext = map[string]string{"a": strings.Repeat("x", 65<<10)} },
			"the context has more than"},
		"many topologies": {func(a *answer) { a.Topologies = many() }, "there are more than 256 topologies"},
	} {
		c.st.do(func() { c.st.answer = func(resp any) { r.answer(resp.(*answer)) } })
		_, err := c.create(volume("second"))
		wantError(t, name, err, r.want)
		if c.get("second") != nil {
			t.Errorf("%s: the volume is registered", name)
		}
	}
	c.st.do(func() {
		c.st.answer = func(resp any) {
			resp.(*answer).Topologies = []*nomad.CSITopology{nil, {Segments: map[string]string{"zone": "z1"}}, {}}
		}
	})
	made, err := c.create(volume("second"))
	if err != nil || len(made[0].Topologies) != 1 {
		t.Errorf("a plugin that answers empty topologies: %v, %v", made, err)
	}
}

func many() (out []*nomad.CSITopology) {
	for range 257 {
		out = append(out, &nomad.CSITopology{Segments: map[string]string{"a": "b"}})
	}
	return out
}

// Of several volumes those without an error are registered, and the error has all reasons.
func TestAnswers_Several(t *testing.T) {
	c := newCluster(t)
	c.st.do(func() {
		c.st.answer = func(resp any) {
			if a, ok := resp.(*message.ClientCSIControllerCreateVolumeResponse); ok && a.ExternalVolumeID == "vol-bad" {
				a.ExternalVolumeID = ""
			}
		}
	})
	_, err := c.create(volume("bad"), volume("good"), volume("worse", func(v *csi.Volume) { v.PluginID = "none" }))
	wantError(t, "create", err, "it returned no ID of the volume")
	wantError(t, "create", err, "no CSI plugin named: none could be found")
	if c.get("good") == nil || c.get("bad") != nil || c.get("worse") != nil {
		t.Error("the wrong volumes are registered")
	}
	wantError(t, "delete", c.remove("good", "bad"), "volume not found: bad")
	if c.get("good") != nil {
		t.Error("the other volume is not deleted")
	}
}

// The plugin refuses a volume, or lacks a capability.
func TestAnswers_Refusals(t *testing.T) {
	c := newCluster(t)
	if _, err := c.create(volume("db", func(v *csi.Volume) { v.RequestedCapacityMin = 5 })); err != nil {
		t.Fatal(err)
	}
	c.st.fails("ValidateVolume", "no such disk")
	_, err := c.registered(volume("other", func(v *csi.Volume) { v.ExternalID = "vol-9" }))
	wantError(t, "register", err, "controller validate volume: rpc error: code = Internal desc = no such disk")
	c.st.fails("CreateVolume", "no space")
	_, err = c.create(volume("other"))
	wantError(t, "create", err, "controller create volume: rpc error: code = Internal desc = no space")
	c.st.fails("", "")
	c.n.set(func(i *nomad.CSIInfo) { i.ControllerInfo = &nomad.CSIControllerInfo{} })
	_, err = c.create(volume("other"))
	wantError(t, "create, incapable", err, "plugin does not support creating volumes")
	wantError(t, "delete, incapable", c.remove("db"), "plugin does not support deleting volumes")
	_, err = c.create(volume("db", func(v *csi.Volume) { v.RequestedCapacityMin = 9 }))
	wantError(t, "expand, incapable", err, "unable to expand volume: expand is not implemented by this controller plugin")
	c.n.set(func(i *nomad.CSIInfo) { i.Healthy = false })
	_, err = c.registered(volume("other"))
	wantError(t, "register, unhealthy", err, "no healthy controllers for CSI plugin: ebs")
	_, err = c.create(volume("other"))
	wantError(t, "create, unhealthy", err, "no healthy controllers for CSI plugin: ebs")
	if c.get("other") != nil || c.get("db") == nil {
		t.Error("a refused request changed the state")
	}
	const none = `no instance of CSI plugin "ebs" is healthy: run its job, or see why it fails with 'nomad plugin status ebs'`
	node, controller := *c.n.Node.CSINodePlugins["ebs"], *c.n.Node.CSIControllerPlugins["ebs"]
	node.RequiresControllerPlugin, controller.RequiresControllerPlugin = false, false
	c.n.set(func(i *nomad.CSIInfo) { i.Healthy, i.RequiresControllerPlugin = true, false })
	for _, r := range []struct {
		name             string
		reported, health bool
		want             string
	}{
		{"no instance", false, false, none},
		{"no healthy instance", true, false, none},
		{"no controller", true, true, "plugin has no controller"},
	} {
		nodes, controllers := map[string]*nomad.CSIInfo{}, map[string]*nomad.CSIInfo{}
		if r.reported {
			n, k := node, controller
			n.Healthy, k.Healthy = r.health, r.health
			nodes["ebs"], controllers["ebs"] = &n, &k
		}
		c.n.Node.CSINodePlugins, c.n.Node.CSIControllerPlugins = nodes, controllers
		c.n.register()
		_, err = c.create(volume("other"))
		wantError(t, "create, "+r.name, err, r.want)
	}
	c.st.took()
	if _, err = c.registered(volume("other")); err != nil {
		t.Error(err)
	}
	servertest.Equal(t, "calls without a controller", c.st.took(), "")
}

// A registered volume is updated, and expanded only if it is too small. What fails is repeated by the same request.
func TestUpdate(t *testing.T) {
	c := newCluster(t)
	sized := func(low, high int64) *csi.Volume {
		return volume("db", func(v *csi.Volume) { v.RequestedCapacityMin, v.RequestedCapacityMax = low, high })
	}
	if _, err := c.create(sized(10, 0)); err != nil {
		t.Fatal(err)
	}
	a := c.place(using("j", "db"))
	if _, err := c.n.claim(a, "db", csi.ClaimWrite); err != nil {
		t.Fatal(err)
	}
	c.st.took()
	for _, step := range []struct {
		name      string
		low, high int64
		fails     string // the method that fails
		want      string // the error
		calls     string
		capacity  int64
	}{
		{"nothing", 0, 0, "", "", "ValidateVolume vol-db", 10},
		{"same", 10, 0, "", "", "ValidateVolume vol-db", 10},
		{"reversed", 10, 9, "", "unable to update volume: unable to expand volume: max requested capacity (9 bytes) less than",
			"ValidateVolume vol-db", 10},
		{"smaller", 5, 9, "", "less than or equal to current (10 bytes)", "ValidateVolume vol-db", 10},
		{"large enough", 5, 20, "", "", "ValidateVolume vol-db", 10},
		{"controller fails", 20, 30, "ExpandVolume", "controller expand volume: rpc error",
			"ValidateVolume vol-db, ExpandVolume vol-db 20-30", 10},
		{"node fails", 20, 30, "NodeExpandVolume", "node expand volume of allocation " + a.ID,
			"ValidateVolume vol-db, ExpandVolume vol-db 20-30, NodeExpandVolume db " + a.ID, 10},
		{"again", 20, 30, "", "", "ValidateVolume vol-db, ExpandVolume vol-db 20-30, NodeExpandVolume db " + a.ID, 20},
		{"done", 20, 30, "", "", "ValidateVolume vol-db", 20},
	} {
		c.st.fails(step.fails, "failed")
		_, err := c.registered(sized(step.low, step.high))
		wantError(t, step.name, err, step.want)
		servertest.Equal(t, step.name+": calls", c.st.took(), step.calls)
		servertest.Equal(t, step.name+": capacity", c.get("db").Capacity, step.capacity)
	}
	c.st.fails("", "")
	c.st.do(func() {
		c.st.answer = func(resp any) {
			if r, ok := resp.(*message.ClientCSIControllerExpandVolumeResponse); ok {
				r.CapacityBytes = 1
			}
		}
	})
	_, err := c.create(sized(50, 0))
	wantError(t, "a shrunk volume", err, "returned the capacity 1, which is less than the requested 50")
	_, err = c.registered(volume("db", func(v *csi.Volume) { v.Name = "other" }))
	wantError(t, "another name", err, "unable to update volume: volume name cannot be updated")
	got := c.get("db")
	if _, ok := got.WriteAllocs[a.ID]; !ok || got.ExternalID != "vol-db" || got.Context["made"] != "yes" {
		t.Errorf("after the updates the volume is %+v", got)
	}
}
