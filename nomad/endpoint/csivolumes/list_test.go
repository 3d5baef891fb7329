package csivolumes_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func TestList(t *testing.T) {
	c := newCluster(t)
	c.call("", "Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "a"}}}, nil)
	for _, id := range []string{"data[0]", "data[1]", "logs", "unused"} {
		if _, err := c.create(volume(id)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.create(volume("data", func(v *csi.Volume) { v.Namespace, v.Name = "a", "of-a" })); err != nil {
		t.Fatal(err)
	}
	// A job with a volume for each allocation, and one that claims its volume.
	j := using("each", "data", func(r *nomad.VolumeRequest) { r.PerAlloc = true })
	j.TaskGroups[0].Count = 2
	c.place(j)
	a := c.place(using("logger", "logs"))
	if _, err := c.n.claim(a, "logs", csi.ClaimWrite); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]struct {
		ns   string
		req  message.CSIVolumeListRequest
		want string
	}{
		"all":           {"*", message.CSIVolumeListRequest{}, "a/data default/data[0] default/data[1] default/logs default/unused"},
		"one namespace": {"", message.CSIVolumeListRequest{}, "default/data[0] default/data[1] default/logs default/unused"},
		"prefix": {"*", message.CSIVolumeListRequest{QueryOptions: message.QueryOptions{Prefix: "data"}},
			"a/data default/data[0] default/data[1]"},
		"plugin":       {"a", message.CSIVolumeListRequest{PluginID: "ebs"}, "a/data"},
		"other plugin": {"*", message.CSIVolumeListRequest{PluginID: "nfs"}, ""},
		"plugin and prefix": {"*", message.CSIVolumeListRequest{PluginID: "ebs", QueryOptions: message.QueryOptions{Prefix: "l"}},
			"default/logs"},
		"node":       {"*", message.CSIVolumeListRequest{NodeID: c.n.Node.ID}, "default/data[0] default/data[1] default/logs"},
		"other node": {"*", message.CSIVolumeListRequest{NodeID: nomad.NewID()}, ""},
		"filter":     {"*", message.CSIVolumeListRequest{QueryOptions: message.QueryOptions{Filter: `CurrentWriters == 1`}}, "default/logs"},
		"page": {"", message.CSIVolumeListRequest{QueryOptions: message.QueryOptions{PerPage: 2}},
			"default/data[0] default/data[1], then default.logs"},
		"next page": {"", message.CSIVolumeListRequest{QueryOptions: message.QueryOptions{PerPage: 2, NextToken: "default.logs"}},
			"default/logs default/unused"},
	} {
		var out message.CSIVolumeListResponse
		if err := c.call(r.ns, "CSIVolume.List", &r.req, &out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var ids []string
		for _, v := range out.Volumes {
			ids = append(ids, v.Namespace+"/"+v.ID)
			if !v.Schedulable || v.ControllersHealthy != 1 || v.Provider != "aws" {
				t.Errorf("%s: the stub is %+v", name, v)
			}
		}
		got := strings.Join(ids, " ")
		if out.NextToken != "" {
			got += ", then " + out.NextToken
		}
		servertest.Equal(t, name, got, r.want)
	}
}

// A blocking query returns when the health of the plugin changes, because it determines whether a volume is schedulable.
func TestList_Blocking(t *testing.T) {
	c := newCluster(t)
	if _, err := c.create(volume("db")); err != nil {
		t.Fatal(err)
	}
	var first message.CSIVolumeListResponse
	if err := c.call("", "CSIVolume.List", &message.CSIVolumeListRequest{}, &first); err != nil || !first.Volumes[0].Schedulable {
		t.Fatalf("list: %v", err)
	}
	type answer struct {
		schedulable bool
		err         error
	}
	list, get := make(chan answer, 1), make(chan answer, 1)
	wait := message.QueryOptions{MinQueryIndex: first.Index, MaxQueryTime: time.Minute}
	go func() {
		var out message.CSIVolumeListResponse
		err := c.call("", "CSIVolume.List", &message.CSIVolumeListRequest{QueryOptions: wait}, &out)
		list <- answer{err == nil && out.Volumes[0].Schedulable, err}
	}()
	go func() {
		var out message.CSIVolumeGetResponse
		err := c.call("", "CSIVolume.Get", &message.CSIVolumeGetRequest{ID: "db", QueryOptions: wait}, &out)
		get <- answer{err == nil && out.Volume.Schedulable, err}
	}()
	c.n.set(func(i *nomad.CSIInfo) { i.Healthy = false })
	for name, ch := range map[string]chan answer{"list": list, "get": get} {
		if got := <-ch; got.schedulable || got.err != nil {
			t.Errorf("%s: schedulable %t, %v, want the state after the change", name, got.schedulable, got.err)
		}
	}
}

func TestPlugins(t *testing.T) {
	c := newCluster(t)
	list := func(prefix string) []*csi.PluginStub {
		var out message.CSIPluginListResponse
		if err := c.call("", "CSIPlugin.List", &message.CSIPluginListRequest{QueryOptions: message.QueryOptions{Prefix: prefix}},
			&out); err != nil {
			t.Fatal(err)
		}
		return out.Plugins
	}
	if got := list("e"); len(got) != 1 || got[0].ID != "ebs" || got[0].ControllersHealthy != 1 || got[0].NodesHealthy != 1 {
		t.Errorf("plugins are %+v", got)
	}
	if got := list("x"); got == nil || len(got) != 0 {
		t.Errorf("plugins with another prefix are %v, want an empty list", got)
	}
	get := func(id string) *csi.Plugin {
		var out message.CSIPluginGetResponse
		if err := c.call("", "CSIPlugin.Get", &message.CSIPluginGetRequest{ID: id}, &out); err != nil {
			t.Fatal(err)
		}
		return out.Plugin
	}
	if p := get("ebs"); len(p.Allocations) != 1 || p.Allocations[0].JobID != "ebs" || p.Controllers[c.n.Node.ID] == nil || p.Version != "1" {
		t.Errorf("the plugin is %+v", p)
	}
	if p := get("none"); p != nil {
		t.Errorf("an unknown plugin is %+v", p)
	}
	remove := func(id string) error {
		return c.call("", "CSIPlugin.Delete", &message.CSIPluginDeleteRequest{ID: id}, &message.CSIPluginDeleteResponse{})
	}
	wantError(t, "delete", remove("ebs"), "plugin in use: ebs")
	wantError(t, "delete nothing", remove(""), "missing plugin ID")
	wantError(t, "delete an unknown one", remove("none"), "")
}

// External volumes and snapshots are read from the plugin each time, page by page.
func TestExternal(t *testing.T) {
	c := newCluster(t)
	for _, id := range []string{"a", "b"} {
		if _, err := c.create(volume(id)); err != nil {
			t.Fatal(err)
		}
	}
	c.st.took()
	var volumes message.CSIVolumeExternalListResponse
	if err := c.call("", "CSIVolume.ListExternal", &message.CSIVolumeExternalListRequest{PluginID: "ebs",
		QueryOptions: message.QueryOptions{PerPage: 5, NextToken: "x"}}, &volumes); err != nil || len(volumes.Volumes) != 3 ||
		volumes.NextToken != "next" {
		t.Errorf("external volumes are %+v, %v", volumes, err)
	}
	for _, v := range volumes.Volumes {
		if v.ExternalID == "bad" && (len(v.Status) > 600 || strings.Contains(v.Status, "\x1b")) {
			t.Errorf("the status of a volume has %d bytes: %.40q", len(v.Status), v.Status)
		}
	}
	var snapshots message.CSISnapshotListResponse
	if err := c.call("", "CSIVolume.ListSnapshots", &message.CSISnapshotListRequest{PluginID: "ebs",
		QueryOptions: message.QueryOptions{PerPage: 7, NextToken: "y"}}, &snapshots); err != nil || len(snapshots.Snapshots) != 1 ||
		snapshots.Snapshots[0].Secrets != nil {
		t.Errorf("snapshots are %+v, %v", snapshots, err)
	}
	servertest.Equal(t, "calls", c.st.took(), "ListVolumes 5x, ListSnapshots 7y")
	c.n.set(func(i *nomad.CSIInfo) { i.ControllerInfo = &nomad.CSIControllerInfo{} })
	for name, r := range map[string]struct {
		plugin, volumes, snapshots string
	}{
		"unknown": {"none", "no such plugin: none", "no such plugin: none"},
		"unable":  {"ebs", "unimplemented for this plugin", "plugin does not support listing snapshots"},
	} {
		wantError(t, name, c.call("", "CSIVolume.ListExternal", &message.CSIVolumeExternalListRequest{PluginID: r.plugin}, nil), r.volumes)
		wantError(t, name, c.call("", "CSIVolume.ListSnapshots", &message.CSISnapshotListRequest{PluginID: r.plugin}, nil), r.snapshots)
	}
}

func TestSnapshots(t *testing.T) {
	c := newCluster(t)
	if _, err := c.create(volume("db")); err != nil {
		t.Fatal(err)
	}
	c.st.took()
	create := func(of ...*csi.Snapshot) ([]*csi.Snapshot, error) {
		var out message.CSISnapshotCreateResponse
		err := c.call("", "CSIVolume.CreateSnapshot", &message.CSISnapshotCreateRequest{Snapshots: of}, &out)
		return out.Snapshots, err
	}
	remove := func(of ...*csi.Snapshot) error {
		return c.call("", "CSIVolume.DeleteSnapshot", &message.CSISnapshotDeleteRequest{Snapshots: of}, nil)
	}
	for name, r := range map[string]struct {
		of   csi.Snapshot
		want string
	}{
		"no volume":      {csi.Snapshot{Name: "s"}, "missing source volume ID"},
		"no name":        {csi.Snapshot{SourceVolumeID: "db"}, "missing name"},
		"unknown volume": {csi.Snapshot{SourceVolumeID: "none", Name: "s"}, `no such volume "none"`},
		"another plugin": {csi.Snapshot{SourceVolumeID: "db", Name: "s", PluginID: "evil"}, `volume "db" is of plugin "ebs", not of "evil"`},
	} {
		_, err := create(&r.of)
		wantError(t, name, err, r.want)
	}
	_, err := create()
	wantError(t, "no snapshot", err, "missing snapshot definition")
	wantError(t, "delete none", remove(), "missing snapshot ID")
	wantError(t, "delete without a plugin", remove(&csi.Snapshot{ID: "s"}), "missing snapshot ID or plugin ID")
	wantError(t, "delete of an unknown plugin", remove(&csi.Snapshot{ID: "s", PluginID: "none"}), `no such plugin "none"`)
	servertest.Equal(t, "calls", c.st.took(), "")

	type answer = message.ClientCSIControllerCreateSnapshotResponse
	for name, r := range map[string]struct {
		answer func(*answer)
		want   string
	}{
		"no ID":          {func(a *answer) { a.ID = "" }, "could not create snapshot: plugin \"ebs\" returned no ID"},
		"another volume": {func(a *answer) { a.ExternalSourceVolumeID = "vol-x" }, `of another external volume, "vol-x"`},
	} {
		c.st.do(func() { c.st.answer = func(resp any) { r.answer(resp.(*answer)) } })
		_, err := create(&csi.Snapshot{SourceVolumeID: "db", Name: "s"})
		wantError(t, name, err, r.want)
	}
	c.st.do(func() { c.st.answer = nil })
	made, err := create(&csi.Snapshot{SourceVolumeID: "db", Name: "s", PluginID: "ebs"}, &csi.Snapshot{SourceVolumeID: "db", Name: "t"})
	if err != nil || len(made) != 2 {
		t.Fatalf("create two: %v, %v", made, err)
	}
	if got, want := made[0], (csi.Snapshot{ID: "snap-s", ExternalSourceVolumeID: "vol-db", SizeBytes: 9, CreateTime: 100, IsReady: true,
		SourceVolumeID: "db", PluginID: "ebs", Name: "s"}); !reflect.DeepEqual(*got, want) {
		t.Errorf("the snapshot is %+v, want %+v", *got, want)
	}
	c.st.took()
	wantError(t, "delete", remove(&csi.Snapshot{ID: "snap-s", PluginID: "ebs"}), "")
	c.st.fails("DeleteSnapshot", "busy")
	wantError(t, "a failing plugin", remove(&csi.Snapshot{ID: "snap-t", PluginID: "ebs"}),
		`could not delete snapshot "snap-t": controller delete snapshot: rpc error: code = Internal desc = busy`)
	servertest.Equal(t, "calls", c.st.took(), "DeleteSnapshot snap-s, DeleteSnapshot snap-t")
	c.n.set(func(i *nomad.CSIInfo) { i.ControllerInfo = &nomad.CSIControllerInfo{} })
	_, err = create(&csi.Snapshot{SourceVolumeID: "db", Name: "s"})
	wantError(t, "unable", err, `plugin "ebs" does not support snapshot`)
}
