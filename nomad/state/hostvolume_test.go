package state_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// report registers node n1 with the volumes, each as "name=ID", in a status.
func (w *world) reportVolumes(status string, volumes ...string) *state.Changes {
	w.t.Helper()
	n := &nomad.Node{ID: "n1", SecretID: "secret-n1", Status: status, HostVolumes: map[string]*nomad.ClientHostVolumeConfig{}}
	for _, v := range volumes {
		name, id, _ := strings.Cut(v, "=")
		n.HostVolumes[name] = &nomad.ClientHostVolumeConfig{Name: name, ID: id}
	}
	return w.ok(w.RegisterNode(w.next(), &message.NodeRegisterRequest{Node: n}))
}

func (w *world) volume(v hostvolume.Volume) error {
	_, err := w.RegisterHostVolume(w.next(), &message.HostVolumeRegisterRequest{Volume: &v})
	return err
}

func (w *world) deleteVolume(ns, id string) error {
	_, err := w.DeleteHostVolume(w.next(), &message.HostVolumeDeleteRequest{VolumeID: id, WriteRequest: message.WriteRequest{Namespace: ns}})
	return err
}

func TestHostVolumeFollowsItsNode(t *testing.T) {
	w := newWorld(t)
	w.reportVolumes(nomad.NodeStatusInit, "static=")
	if err := w.volume(hostvolume.Volume{ID: "v", Name: "data", Namespace: "default", NodeID: "n1", State: "ready"}); err != nil {
		t.Fatal(err)
	}
	status := func(s string) func() {
		return func() {
			w.ok(w.UpdateNodeStatus(w.next(), &message.NodeUpdateStatusRequest{NodeID: "n1", Status: s}))
		}
	}
	report := func(s string, volumes ...string) func() { return func() { w.reportVolumes(s, volumes...) } }
	for i, c := range []struct {
		change func()
		want   hostvolume.State
	}{
		{func() {}, "pending"},
		{report("initializing", "data=v"), "pending"},
		{report("ready", "data=other"), "pending"},
		{report("ready", "data="), "pending"}, // a static volume
		{report("initializing", "data=v"), "pending"},
		{status("ready"), "ready"},
		{status("disconnected"), "ready"},
		{report("ready"), "ready"}, // the node has reported no volume yet
		{report("ready", "x="), "unavailable"},
		{report("initializing", "data=v"), "unavailable"},
		{report("ready", "data=v"), "ready"},
		{status("down"), "unavailable"},
		{status("ready"), "ready"},
		{report("down", "data=v"), "unavailable"},
	} {
		c.change()
		if got := w.snap().HostVolume(nil, "default", "v").State; got != c.want {
			t.Errorf("step %d: the state is %s, want %s", i, got, c.want)
		}
	}
}

func TestHostVolumeRegister(t *testing.T) {
	w := newWorld(t)
	w.reportVolumes(nomad.NodeStatusReady, "data=v")
	w.ok(w.UpsertNamespaces(w.next(), &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "b"}}}))
	c := w.ok(w.RegisterHostVolume(w.next(),
		&message.HostVolumeRegisterRequest{Volume: &hostvolume.Volume{ID: "v", Name: "data", Namespace: "default", NodeID: "n1"}}))
	created := w.index
	if v := w.snap().HostVolume(nil, "default", "v"); v.State != hostvolume.Ready || len(c.Nodes) != 1 || v.CreateIndex != created {
		t.Errorf("a volume that the node has is %+v, and %d nodes changed", v, len(c.Nodes))
	}
	for want, v := range map[string]hostvolume.Volume{
		`namespace "none" does not exist`:             {ID: "v2", Name: "x", Namespace: "none", NodeID: "n1"},
		"volume v exists in another namespace":        {ID: "v", Name: "data", Namespace: "b", NodeID: "n1"},
		"volume name already exists on this node":     {ID: "v2", Name: "data", Namespace: "b", NodeID: "n1"},
		`volume v is "data" of node n1, which cannot`: {ID: "v", Name: "other", Namespace: "default", NodeID: "n1"},
		"missing volume":                              {Name: "data"},
	} {
		if err := w.volume(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", v, err, want)
		}
	}
	if err := w.volume(hostvolume.Volume{ID: "v", Name: "data", Namespace: "default", NodeID: "n1", CapacityBytes: 5,
		State: "pending"}); err != nil {
		t.Fatal(err)
	}
	v := w.snap().HostVolume(nil, "default", "v")
	if v.CreateIndex != created || v.ModifyIndex != w.index || v.CapacityBytes != 5 || v.State != "ready" {
		t.Errorf("updated: %+v", v)
	}
	if _, err := w.DeleteNamespaces(w.next(), &message.NamespaceDeleteRequest{Namespaces: []string{"b"}}); err != nil {
		t.Error(err)
	}
}

func TestHostVolumeDelete(t *testing.T) {
	w := newWorld(t)
	w.reportVolumes(nomad.NodeStatusReady, "data=v")
	w.ok(w.UpsertNamespaces(w.next(), &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "b"}}}))
	if err := w.volume(hostvolume.Volume{ID: "v", Name: "data", Namespace: "default", NodeID: "n1"}); err != nil {
		t.Fatal(err)
	}
	w.place(w.sticky("j", "data"), nil, "a1")
	want := func(err error, text string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	want(w.deleteVolume("b", "v"), "no such volume: v")
	want(w.deleteVolume("default", "v"), "volume v in use by allocations: [a1]")
	w.report("a1", nomad.AllocClientStatusComplete)
	if err := w.deleteVolume("default", "v"); err != nil {
		t.Fatal(err)
	}
	if s := w.snap(); s.HostVolumeByID("v") != nil || len(slices.Collect(s.VolumeClaims(nil))) != 0 {
		t.Error("the volume or its claim remains")
	}
	if err := w.volume(hostvolume.Volume{ID: "v2", Name: "data", Namespace: "b", NodeID: "n1"}); err != nil {
		t.Fatal(err)
	}
	_, err := w.DeleteNamespaces(w.next(), &message.NamespaceDeleteRequest{Namespaces: []string{"b"}})
	want(err, `namespace "b" has the volume "data" (v2)`)
}

// sticky registers a job whose group asks for a volume, sticky.
func (w *world) sticky(id, source string) *nomad.Job {
	return w.job(id, func(j *nomad.Job) {
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: source, Sticky: true}}
	})
}

// claims returns the claims as "ID volume allocation".
func (w *world) claims() []string {
	var out []string
	for c := range w.snap().VolumeClaims(nil) {
		out = append(out, fmt.Sprintf("%s %s %s", c.ID, c.VolumeID, c.AllocID))
	}
	return out
}

func TestVolumeClaims(t *testing.T) {
	w := newWorld(t)
	w.reportVolumes(nomad.NodeStatusReady, "data=v", "static=")
	if err := w.volume(hostvolume.Volume{ID: "v", Name: "data", Namespace: "default", NodeID: "n1"}); err != nil {
		t.Fatal(err)
	}
	w.place(w.sticky("s", "static"), nil, "s1")
	if got := w.claims(); got != nil {
		t.Errorf("a static volume is claimed: %q", got)
	}
	j := w.sticky("j", "data")
	w.place(j, nil, "a1")
	first := w.claims()
	if len(first) != 1 || !nomad.IsUUID(first[0][:36]) || first[0][36:] != " v a1" {
		t.Fatalf("claims are %q", first)
	}
	w.place(j, nil, "a2")
	if got := w.claims(); !slices.Equal(got, first) {
		t.Errorf("a running allocation lost its claim: %q, was %q", got, first)
	}
	w.report("a1", nomad.AllocClientStatusFailed)
	w.place(j, nil, "a3")
	if got := w.claims(); len(got) != 1 || got[0] != first[0][:36]+" v a3" {
		t.Errorf("after a failure the claims are %q", got)
	}

	id := first[0][:36]
	in := func(ns string) *message.TaskGroupVolumeClaimDeleteRequest {
		return &message.TaskGroupVolumeClaimDeleteRequest{ClaimID: id, WriteRequest: message.WriteRequest{Namespace: ns}}
	}
	if _, err := w.DeleteVolumeClaim(w.next(), in("other")); err == nil || len(w.claims()) != 1 {
		t.Errorf("a claim of another namespace was deleted: %v", err)
	}
	if c := w.ok(w.DeleteVolumeClaim(w.next(), in("default"))); len(c.Nodes) != 1 || w.claims() != nil {
		t.Errorf("deleted: %+v, claims %q", c, w.claims())
	}
	w.place(j, nil, "a4")
	w.ok(w.DeregisterJob(w.next(), &message.JobDeregisterRequest{JobID: "j", WriteRequest: message.WriteRequest{Namespace: "default"}}))
	if len(w.claims()) != 1 {
		t.Error("a stopped job lost its claim")
	}
	w.ok(w.DeregisterJob(w.next(),
		&message.JobDeregisterRequest{JobID: "j", Purge: true, WriteRequest: message.WriteRequest{Namespace: "default"}}))
	if got := w.claims(); got != nil {
		t.Errorf("a purged job has the claims %q", got)
	}
}

// A node that deletes its volumes takes them along. Those of other nodes remain.
func TestVolumesOfRemovedNode(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		w := newWorld(t)
		w.ok(w.RegisterNode(w.next(), &message.NodeRegisterRequest{Node: &nomad.Node{ID: "n1", Status: "ready", GCVolumesOnNodeGC: deletes}}))
		if err := w.volume(hostvolume.Volume{ID: "v", Name: "data", Namespace: "default", NodeID: "n1"}); err != nil {
			t.Fatal(err)
		}
		w.ok(w.DeregisterNodes(w.next(), state.Deregistration{IDs: []string{"n1"}}))
		if gone := w.snap().HostVolumeByID("v") == nil; gone != deletes {
			t.Errorf("gc_volumes_on_node_gc is %t, and the volume is gone: %t", deletes, gone)
		}
	}
}

// A snapshot keeps the volumes and the claims.
func TestVolumesInSnapshot(t *testing.T) {
	w := newWorld(t)
	w.reportVolumes(nomad.NodeStatusReady, "data=v")
	if err := w.volume(hostvolume.Volume{ID: "v", Name: "data", Namespace: "default", NodeID: "n1",
		Parameters: map[string]string{"mode": "0700"}}); err != nil {
		t.Fatal(err)
	}
	w.place(w.sticky("j", "data"), nil, "a1")
	r := state.NewRestore(slog.New(slog.DiscardHandler))
	for _, rec := range state.Tables() {
		for row := range rec.Rows(w.snap()) {
			if err := rec.Read(r, copyInto(t, row)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := r.Finish().Snapshot()
	v := s.HostVolume(nil, "default", "v")
	claims := slices.Collect(s.VolumeClaimsOf("default", "j", "g"))
	if v == nil || v.State != "ready" || v.Parameters["mode"] != "0700" || len(claims) != 1 || claims[0].AllocID != "a1" {
		t.Errorf("restored %+v and %d claims", v, len(claims))
	}
}

// copyInto returns a decoder of an encoded copy of the row.
func copyInto(t *testing.T, row any) func(any) error {
	t.Helper()
	raw, err := codec.Encode(row)
	if err != nil {
		t.Fatal(err)
	}
	return func(v any) error { return codec.Decode(raw, v) }
}
