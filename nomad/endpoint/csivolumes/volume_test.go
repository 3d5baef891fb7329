package csivolumes_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// A volume is created, claimed by an allocation, released when it has ended, and deleted.
func TestVolume_Lifecycle(t *testing.T) {
	c := newCluster(t)
	made, err := c.create(volume("db", func(v *csi.Volume) { v.RequestedCapacityMin, v.Capacity = 7, 99 }))
	if err != nil || len(made) != 1 {
		t.Fatalf("create: %v, %v", made, err)
	}
	v := made[0]
	servertest.Equal(t, "ExternalID", v.ExternalID, "vol-db")
	servertest.Equal(t, "Capacity", v.Capacity, 7)
	servertest.Equal(t, "Context", v.Context["made"], "yes")
	servertest.Equal(t, "Namespace", v.Namespace, "default")
	servertest.Equal(t, "Provider", v.Provider, "aws")
	servertest.Equal(t, "topologies", len(v.Topologies), 1)
	if v.Secrets != nil || v.Sealed != nil {
		t.Error("the reply has secrets")
	}
	servertest.Equal(t, "calls", c.st.took(), "CreateVolume db")

	a := c.place(using("j", "db"))
	claimed, err := c.n.claim(a, "db", csi.ClaimWrite)
	if err != nil {
		t.Fatal(err)
	}
	servertest.Equal(t, "PublishContext", claimed.PublishContext["device"], "/dev/vol-db")
	servertest.Equal(t, "secret", claimed.Volume.Secrets["password"], secret)
	servertest.Equal(t, "Schedulable", claimed.Volume.Schedulable, true)
	servertest.Equal(t, "calls", c.st.took(), "AttachVolume vol-db i-1")

	got := c.get("db")
	servertest.Equal(t, "AccessMode", got.AccessMode, nomad.VolumeSingleNodeWriter)
	servertest.Equal(t, "NodesHealthy", got.NodesHealthy, 1)
	if _, ok := got.WriteAllocs[a.ID]; !ok || len(got.Allocations) != 1 || got.Allocations[0].ID != a.ID || len(got.Releases) != 0 {
		t.Errorf("the volume has the writers %v, allocations %v and releases %v", got.WriteAllocs, got.Allocations, got.Releases)
	}
	wantError(t, "delete in use", c.remove("db"), "volume in use: db")
	wantError(t, "deregister in use", c.deregister(false, "db"), "volume in use: db")
	wantError(t, "deregister in use with force", c.deregister(true, "db"), "volume in use: db")
	servertest.Equal(t, "calls for a volume in use", c.st.took(), "")

	c.n.Report(nomad.AllocClientStatusComplete, a)
	wantError(t, "unpublish", c.n.unpublish(a, "db", csi.ClaimNodeDetached), "")
	servertest.Eventually(t, func() bool { return len(c.get("db").WriteAllocs) == 0 })
	servertest.Equal(t, "AccessMode of a free volume", c.get("db").AccessMode, "")
	c.st.do(func() {
		if c.st.attached["vol-db"]["i-1"] {
			t.Error("the volume is still attached")
		}
	})
	c.st.took()
	wantError(t, "delete", c.remove("db"), "")
	servertest.Equal(t, "calls", c.st.took(), "DeleteVolume vol-db")
	if c.get("db") != nil {
		t.Error("the volume remains")
	}
	wantError(t, "delete again", c.remove("db"), "volume not found: db")
	if c.st.tokens > 0 {
		t.Errorf("%d calls had a token of a server", c.st.tokens)
	}
}

func TestVolume_Refused(t *testing.T) {
	c := newCluster(t)
	for name, r := range map[string]struct {
		create bool
		edit   func(*csi.Volume)
		want   string
	}{
		"no ID":          {false, func(v *csi.Volume) { v.ID = "" }, "validation: missing volume id"},
		"path":           {true, func(v *csi.Volume) { v.ID = "../../etc" }, "validation: volume id must have"},
		"namespace":      {true, func(v *csi.Volume) { v.Namespace = "none" }, "volume v is in nonexistent namespace none"},
		"plugin":         {false, func(v *csi.Volume) { v.PluginID = "nfs" }, "no CSI plugin named: nfs could be found"},
		"plugin, create": {true, func(v *csi.Volume) { v.PluginID = "nfs" }, "no CSI plugin named: nfs could be found"},
		"no name":        {true, func(v *csi.Volume) { v.Name = "" }, "missing Name"},
		"hidden flags": {false, func(v *csi.Volume) { v.MountOptions = &nomad.CSIMountOptions{MountFlags: []string{"[REDACTED]"}} },
			"mount_flags are those of a reply"},
		"many secrets": {true, func(v *csi.Volume) { v.Secrets = csi.Secrets{"a": string(make([]byte, 70<<10))} }, "1 secrets of"},
	} {
		v, err := volume("v", r.edit), error(nil)
		if r.create {
			_, err = c.create(v)
		} else {
			_, err = c.registered(v)
		}
		wantError(t, name, err, r.want)
	}
	_, err := c.create()
	servertest.WantError(t, err, 400, "missing volume definition")
	if calls := c.st.took(); calls != "" {
		t.Errorf("refused requests reached the plugin: %s", calls)
	}
}
