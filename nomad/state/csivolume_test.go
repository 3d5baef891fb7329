package state_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// csiVolume registers a volume of the namespace default that several nodes may write to.
func (w *world) csiVolume(id, plugin string, edit ...func(*csi.Volume)) *state.Changes {
	w.t.Helper()
	v := &csi.Volume{ID: id, Namespace: "default", PluginID: plugin, ExternalID: "vol-" + id,
		RequestedCapabilities: []*csi.Capability{{AttachmentMode: nomad.VolumeAttachFilesystem, AccessMode: nomad.VolumeMultiNodeMultiWriter}}}
	for _, e := range edit {
		e(v)
	}
	return w.ok(w.RegisterCSIVolumes(w.next(), &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{v}, Timestamp: int64(w.index)}))
}

// claim submits a claim, or the next state of one, of the volume db.
func (w *world) claim(alloc string, mode csi.ClaimMode, edit ...func(*message.CSIVolumeClaimRequest)) (*state.Changes, error) {
	req := &message.CSIVolumeClaimRequest{VolumeID: "db", AllocationID: alloc, Claim: mode, AccessMode: nomad.VolumeMultiNodeMultiWriter,
		AttachmentMode: nomad.VolumeAttachFilesystem, WriteRequest: message.WriteRequest{Namespace: "default"}}
	req.NodeID = "other" // that of the allocation counts
	for _, e := range edit {
		e(req)
	}
	index := w.next()
	req.Timestamp = int64(index)
	return w.ClaimCSIVolume(index, req)
}

// step makes a request a step of the release.
func step(s csi.ClaimState) func(*message.CSIVolumeClaimRequest) {
	return func(r *message.CSIVolumeClaimRequest) { r.State = s }
}

func access(m nomad.VolumeAccessMode) func(*message.CSIVolumeClaimRequest) {
	return func(r *message.CSIVolumeClaimRequest) { r.AccessMode = m }
}

func (w *world) db() *csi.Volume { return w.snap().CSIVolume(nil, "default", "db") }

// withCSI returns a world with the plugin ebs on the nodes n1 and n2, the volume db, and the running allocations a1 to a3 on n1.
func withCSI(t *testing.T) *world {
	w := newWorld(t)
	j := w.pluginJob("plugin", nomad.JobTypeService, 2, "ebs/monolith")
	for _, n := range []string{"n1", "n2"} {
		w.node(n)
		w.place(j, on(n), "p"+n)
		w.reportPlugins(n, "ebs/controller/p"+n, "ebs/node/p"+n)
	}
	w.csiVolume("db", "ebs")
	w.place(w.job("web"), nil, "a1", "a2", "a3")
	return w
}

func TestRegisterCSIVolumes(t *testing.T) {
	w := withCSI(t)
	created := w.db()
	if created.CreateIndex != created.ModifyIndex || created.CreateTime != int64(created.CreateIndex) || created.ModifyTime != created.CreateTime {
		t.Errorf("the indexes and times are %+v", created)
	}
	w.ok(w.claim("a1", csi.ClaimWrite))
	c := w.csiVolume("db", "ebs", func(v *csi.Volume) {
		v.Context, v.AccessMode = map[string]string{"a": "b"}, nomad.VolumeSingleNodeReader
		v.ReadClaims = map[string]*csi.Claim{"x": {}}
		v.Schedulable, v.NodesHealthy, v.Provider = true, 9, "ebs.example"
		v.Releases = []*csi.Release{{}}
	})
	v := w.db()
	if v.CreateIndex != created.CreateIndex || v.CreateTime != created.CreateTime || v.ModifyIndex != w.index || v.ModifyTime != int64(w.index) {
		t.Errorf("after an update the indexes and times are %+v", v)
	}
	if v.Context["a"] != "b" || v.AccessMode != nomad.VolumeMultiNodeMultiWriter || len(v.WriteClaims) != 1 || len(v.ReadClaims) != 0 {
		t.Errorf("an update lost the claim, or changed it: %+v", v)
	}
	if v.Schedulable || v.NodesHealthy != 0 || v.Releases != nil {
		t.Errorf("fields of a reply are stored: %+v", v)
	}
	if !slices.Equal(c.Volumes, []string{csi.Resource("default", "db")}) {
		t.Errorf("a registration frees %q", c.Volumes)
	}
	for want, edit := range map[string]func(*csi.Volume){
		"volume db is in nonexistent namespace none": func(v *csi.Volume) { v.Namespace = "none" },
		"volume identity cannot be updated: db":      func(v *csi.Volume) { v.ExternalID = "vol-2" },
		"identity cannot be updated: db":             func(v *csi.Volume) { v.PluginID = "efs" },
		"cannot be updated: db":                      func(v *csi.Volume) { v.Provider = "other" },
		"missing volume ID":                          func(v *csi.Volume) { v.ID = "" },
	} {
		v := &csi.Volume{ID: "db", Namespace: "default", PluginID: "ebs", ExternalID: "vol-db"}
		edit(v)
		good := &csi.Volume{ID: "good", Namespace: "default", PluginID: "ebs"}
		_, err := w.RegisterCSIVolumes(w.next(), &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{good, v}})
		if err == nil || !strings.Contains(err.Error(), want) || w.snap().CSIVolume(nil, "default", "good") != nil {
			t.Errorf("RegisterCSIVolumes() = %v, want %q and no change", err, want)
		}
	}
}

func TestReadCSIVolumes(t *testing.T) {
	w := withCSI(t)
	w.ok(w.UpsertNamespaces(w.next(), &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "b"}}}))
	w.csiVolume("db", "efs", func(v *csi.Volume) { v.Namespace = "b" })
	w.csiVolume("web", "ebs", func(v *csi.Volume) { v.Secrets = csi.Secrets{"k": "v"} })
	w.csiVolume("web2", "ebs", func(v *csi.Volume) { v.Sealed = &csi.Sealed{KeyID: "key", Data: []byte("x")} })
	name := func(v *csi.Volume) string { return v.Namespace + "/" + v.ID }
	s := w.snap()
	for what, c := range map[string]struct{ got, want string }{
		"all":          {ids(s.CSIVolumes(nil), name), "[b/db default/db default/web default/web2]"},
		"of namespace": {ids(s.CSIVolumesByNamespace(nil, "b"), name), "[b/db]"},
		"of plugin":    {ids(s.CSIVolumesByPlugin(nil, "ebs"), name), "[default/db default/web default/web2]"},
		"no plugin":    {ids(s.CSIVolumesByPlugin(nil, "eb"), name), "[]"},
		"unsealed":     {ids(s.UnsealedCSIVolumes(), name), "[default/web]"},
		"of key":       {ids(s.CSIVolumesByKey(nil, "key"), name), "[default/web2]"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", what, c.got, c.want)
		}
	}
	if !s.RootKeyInUse("key") || s.RootKeyInUse("other") {
		t.Error("the key of sealed secrets is not in use")
	}
	shown := s.ShownCSIVolume(nil, s.CSIVolume(nil, "default", "web"))
	if !shown.Schedulable || shown.NodesHealthy != 2 || shown.ControllersExpected != 2 || !shown.ControllerRequired ||
		shown.Provider != "ebs.example" || shown.ProviderVersion != "1" || shown.Secrets["k"] != "v" {
		t.Errorf("ShownCSIVolume() = %+v", shown)
	}
	if v := s.CSIVolume(nil, "default", "web"); v.Schedulable || v.NodesHealthy != 0 {
		t.Errorf("the stored volume was changed: %+v", v)
	}
	if of := s.ShownCSIVolume(nil, s.CSIVolume(nil, "b", "db")); of.Schedulable || of.NodesExpected != 0 {
		t.Errorf("without a plugin ShownCSIVolume() = %+v", of)
	}
	if _, err := w.DeleteNamespaces(w.next(), &message.NamespaceDeleteRequest{Namespaces: []string{"b"}}); err == nil ||
		!strings.Contains(err.Error(), `the CSI volume "db"`) {
		t.Errorf("DeleteNamespaces() = %v", err)
	}
}

func TestClaimCSIVolume(t *testing.T) {
	type claim struct {
		alloc string
		mode  csi.ClaimMode
		edit  []func(*message.CSIVolumeClaimRequest)
	}
	reads := func(alloc string, edit ...func(*message.CSIVolumeClaimRequest)) claim {
		return claim{alloc, csi.ClaimRead, edit}
	}
	writes := func(alloc string, edit ...func(*message.CSIVolumeClaimRequest)) claim {
		return claim{alloc, csi.ClaimWrite, edit}
	}
	block := func(r *message.CSIVolumeClaimRequest) { r.AttachmentMode = nomad.VolumeAttachBlockDevice }
	for name, c := range map[string]struct {
		before []claim
		claim  claim
		want   error // nil if the claim is taken
	}{
		"free":                         {nil, writes("a1"), nil},
		"multi reader":                 {[]claim{reads("a1", access("multi-node-reader-only"))}, reads("a2"), nil},
		"multi reader, a writer":       {[]claim{reads("a1", access("multi-node-reader-only"))}, writes("a2"), csi.ErrUnschedulable},
		"single reader":                {[]claim{reads("a1", access("single-node-reader-only"))}, reads("a2"), csi.ErrMaxClaims},
		"single writer":                {[]claim{writes("a1", access("single-node-writer"))}, writes("a2"), csi.ErrMaxClaims},
		"single writer, a reader":      {[]claim{writes("a1", access("single-node-writer"))}, reads("a2"), csi.ErrMaxClaims},
		"single writer mode, 1 reader": {[]claim{reads("a1", access("single-node-writer"))}, writes("a2"), nil},
		"single writer of many nodes":  {[]claim{writes("a1", access("multi-node-single-writer"))}, writes("a2"), csi.ErrMaxClaims},
		"its readers":                  {[]claim{writes("a1", access("multi-node-single-writer"))}, reads("a2"), nil},
		"many writers":                 {[]claim{writes("a1"), writes("a2"), reads("a3")}, writes("a3"), nil},
		"mode of the first claim":      {[]claim{writes("a1")}, writes("a2", access("single-node-writer")), nil},
		"block after files":            {[]claim{writes("a1")}, writes("a2", block), csi.ErrAttachmentMode},
		"same allocation":              {[]claim{writes("a1", access("single-node-writer"))}, writes("a1", access("single-node-writer")), nil},
		"reader after writer":          {[]claim{writes("a1", access("single-node-writer"))}, reads("a1", access("single-node-writer")), nil},
		"writer after reader":          {[]claim{reads("a1", access("single-node-reader-only"))}, writes("a1", access("single-node-writer")), nil},
		"being released": {[]claim{writes("a1"), writes("a1", step(csi.ClaimUnpublishing))}, writes("a1"),
			csi.ErrMaxClaims},
		"after the release": {[]claim{writes("a1", access("single-node-writer")), writes("a1", step(csi.ClaimUnpublishing)),
			writes("a1", step(csi.ClaimNodeDetached)), writes("a1", step(csi.ClaimReadyToFree))}, writes("a1", block), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := withCSI(t)
			for _, b := range c.before {
				w.ok(w.claim(b.alloc, b.mode, b.edit...))
			}
			before := w.db()
			_, err := w.claim(c.claim.alloc, c.claim.mode, c.claim.edit...)
			after := w.db()
			if !errors.Is(err, c.want) {
				t.Fatalf("ClaimCSIVolume() = %v, want %v", err, c.want)
			}
			if err != nil {
				if after != before || !strings.HasPrefix(err.Error(), fmt.Sprintf("alloc %q failed to claim volume %q: ", c.claim.alloc, "db")) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			claims := after.WriteClaims
			if c.claim.mode == csi.ClaimRead && after.WriteClaims[c.claim.alloc] == nil {
				claims = after.ReadClaims
			}
			got := claims[c.claim.alloc]
			if got == nil || got.NodeID != "n1" || got.State != csi.ClaimTaken || got.Since == 0 {
				t.Errorf("the claim is %+v", got)
			}
			checkClaims(t, after)
		})
	}
}

// checkClaims checks what holds for the claims of every volume.
func checkClaims(t *testing.T, v *csi.Volume) {
	t.Helper()
	for what, side := range map[string]struct {
		allocs map[string]*nomad.Allocation
		claims map[string]*csi.Claim
	}{"read": {v.ReadAllocs, v.ReadClaims}, "write": {v.WriteAllocs, v.WriteClaims}} {
		if len(side.allocs) != len(side.claims) {
			t.Errorf("volume %s: %d allocations and %d claims to %s", v.ID, len(side.allocs), len(side.claims), what)
		}
		for id := range side.allocs {
			if side.allocs[id] != nil || side.claims[id] == nil || side.claims[id].AllocationID != id {
				t.Errorf("volume %s: the claim of %s is %+v, its allocation %v", v.ID, id, side.claims[id], side.allocs[id])
			}
		}
	}
	for id := range v.PastClaims {
		if v.ReadClaims[id] == nil && v.WriteClaims[id] == nil {
			t.Errorf("volume %s: %s releases a claim that nothing holds", v.ID, id)
		}
	}
	for id := range v.ReadClaims {
		if v.WriteClaims[id] != nil {
			t.Errorf("volume %s: %s has two claims", v.ID, id)
		}
	}
	if v.InUse() != (v.AccessMode != "") || v.InUse() != (v.AttachmentMode != "") {
		t.Errorf("volume %s: in use %t, with the modes %q and %q", v.ID, v.InUse(), v.AccessMode, v.AttachmentMode)
	}
}

func TestClaimCSIVolumeRefusals(t *testing.T) {
	w := withCSI(t)
	w.csiVolume("read-only", "ebs", func(v *csi.Volume) { v.RequestedCapabilities[0].AccessMode = nomad.VolumeMultiNodeReader })
	w.csiVolume("no-plugin", "efs")
	w.ok(w.UpsertNamespaces(w.next(), &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "b"}}}))
	w.csiVolume("of-b", "ebs", func(v *csi.Volume) { v.Namespace = "b" })
	w.report("a3", nomad.AllocClientStatusComplete)
	of := func(id string) func(*message.CSIVolumeClaimRequest) {
		return func(r *message.CSIVolumeClaimRequest) { r.VolumeID = id }
	}
	for want, c := range map[string]struct {
		alloc string
		mode  csi.ClaimMode
		edit  func(*message.CSIVolumeClaimRequest)
	}{
		"volume not found: none":                                       {"a1", csi.ClaimRead, of("none")},
		`"of-b": allocation missing: a1`:                               {"a1", csi.ClaimRead, func(r *message.CSIVolumeClaimRequest) { r.VolumeID, r.Namespace = "of-b", "b" }},
		"volume not found: db":                                         {"a1", csi.ClaimRead, func(r *message.CSIVolumeClaimRequest) { r.Namespace = "b" }},
		`alloc "x" failed to claim volume "db": allocation missing: x`: {"x", csi.ClaimRead, of("db")},
		`alloc "a1" failed to claim volume "no-plugin": volume is currently unschedulable`:           {"a1", csi.ClaimRead, of("no-plugin")},
		`alloc "a1" failed to claim volume "read-only": volume is currently unschedulable for writi`: {"a1", csi.ClaimWrite, of("read-only")},
		"the allocation has ended: its client status is complete":                                    {"a3", csi.ClaimRead, of("db")},
		`a claim for writing cannot have the access mode "multi-node-reader-only"`:                   {"a1", csi.ClaimWrite, access("multi-node-reader-only")},
		"missing allocation ID":   {"", csi.ClaimRead, of("db")},
		"unknown mode 2":          {"a1", csi.ClaimGC, of("db")},
		"unknown mode 7 of a cla": {"a1", 7, of("db")},
	} {
		if _, err := w.claim(c.alloc, c.mode, c.edit); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ClaimCSIVolume() = %v, want %q", err, want)
		}
	}
	for v := range w.snap().CSIVolumes(nil) {
		if v.InUse() {
			t.Errorf("volume %s has a claim", v.ID)
		}
	}
	before := w.db().ModifyIndex
	w.ok(w.claim("", csi.ClaimGC))
	if after := w.db(); after.ModifyIndex == before || after.InUse() {
		t.Errorf("a claim that wakes the release left %+v", after)
	}
}

func TestReleaseCSIVolume(t *testing.T) {
	w := withCSI(t)
	w.ok(w.claim("a1", csi.ClaimWrite, access("single-node-writer")))
	taken := w.db().WriteClaims["a1"]
	for i, c := range []struct {
		state csi.ClaimState
		waits string
		want  string // the state and what it waits for, or the error
		same  bool   // nothing changes
	}{
		{csi.ClaimNodeDetached, "", "error: a claim that is taken cannot become node-detached", true},
		{csi.ClaimReadyToFree, "", "error: a claim that is taken cannot become ready-to-free", true},
		{csi.ClaimUnpublishing, "", "unpublishing ", false},
		{csi.ClaimUnpublishing, "", "unpublishing ", true},
		{csi.ClaimUnpublishing, "node n1", "unpublishing node n1", false},
		{csi.ClaimUnpublishing, "node n1", "unpublishing node n1", true},
		{csi.ClaimUnpublishing, "", "unpublishing node n1", true},
		{csi.ClaimUnpublishing, "plugin", "unpublishing plugin", false},
		{csi.ClaimReadyToFree, "", "error: a claim that is unpublishing cannot become ready-to-free", true},
		{csi.ClaimControllerDetached, "", "error: a claim that is unpublishing cannot become controller-detached", true},
		{csi.ClaimNodeDetached, "", "node-detached ", false},
		{csi.ClaimUnpublishing, "late", "node-detached ", true},
		{csi.ClaimNodeDetached, "controller", "node-detached controller", false},
		{99, "", "error: a claim that is node-detached cannot become unknown state 99", true},
		{csi.ClaimReadyToFree, "", "freed", false},
		{csi.ClaimReadyToFree, "", "freed", true},
		{csi.ClaimUnpublishing, "", "freed", true},
	} {
		before := w.db()
		since := before.ClaimOf("a1")
		c2, err := w.claim("a1", csi.ClaimWrite, step(c.state), func(r *message.CSIVolumeClaimRequest) { r.Waits = c.waits })
		after := w.db()
		got := "freed"
		if now := after.ClaimOf("a1"); now != nil {
			got = now.State.String() + " " + now.Waits
			if now.NodeID != "n1" || now.AccessMode != "single-node-writer" || now.Mode != csi.ClaimWrite || after.WriteClaims["a1"] != taken {
				t.Errorf("step %d: the claim became %+v", i, now)
			}
			if moved := since.State != now.State; moved != (now.Since == int64(w.index)) {
				t.Errorf("step %d: Since is %d at %d", i, now.Since, w.index)
			}
		}
		if err != nil {
			got = "error: " + strings.TrimPrefix(err.Error(), `alloc "a1" failed to claim volume "db": `)
		}
		if got != c.want || (before == after) != c.same {
			t.Errorf("step %d: %q, want %q; nothing changed: %t", i, got, c.want, before == after)
		}
		checkClaims(t, after)
		freed := err == nil && before.InUse() && !after.InUse()
		if freed != (c2 != nil && slices.Equal(c2.Volumes, []string{csi.Resource("default", "db")}) && len(c2.Nodes) == 1) {
			t.Errorf("step %d: freed %t, the changes are %+v", i, freed, c2)
		}
	}
}

// A release retries the evaluations that wait for the volume. Those that wait for room on the node are retried only if its plugin
// has a limit.
func TestReleaseCSIVolume_NoLimit(t *testing.T) {
	w := withCSI(t)
	w.ok(w.claim("a1", csi.ClaimWrite))
	n := *w.snap().Node(nil, "n1")
	info := *n.CSINodePlugins["ebs"]
	info.NodeInfo = &nomad.CSINodeInfo{ID: "n1", MaxVolumes: math.MaxInt64}
	n.CSINodePlugins = map[string]*nomad.CSIInfo{"ebs": &info}
	w.ok(w.RegisterNode(w.next(), &message.NodeRegisterRequest{Node: &n}))
	var c *state.Changes
	for _, s := range []csi.ClaimState{csi.ClaimUnpublishing, csi.ClaimNodeDetached, csi.ClaimReadyToFree} {
		c = w.ok(w.claim("a1", csi.ClaimWrite, step(s)))
	}
	if !slices.Equal(c.Volumes, []string{csi.Resource("default", "db")}) || len(c.Nodes) != 0 {
		t.Errorf("the changes are %+v, want only the volume", c)
	}
}

func TestClaimCSIVolumes(t *testing.T) {
	w := withCSI(t)
	req := func(alloc string, s csi.ClaimState) message.CSIVolumeClaimRequest {
		return message.CSIVolumeClaimRequest{VolumeID: "db", AllocationID: alloc, Claim: csi.ClaimWrite, AccessMode: "multi-node-multi-writer",
			State: s, WriteRequest: message.WriteRequest{Namespace: "default"}}
	}
	batch := func(all ...message.CSIVolumeClaimRequest) error {
		_, err := w.ClaimCSIVolumes(w.next(), &message.CSIVolumeClaimBatchRequest{Claims: all})
		return err
	}
	if err := batch(req("a1", 0), req("none", 0), req("a1", csi.ClaimUnpublishing), req("a2", 0)); err != nil {
		t.Fatal(err)
	}
	if v := w.db(); len(v.WriteClaims) != 2 || v.PastClaims["a1"] == nil {
		t.Errorf("the claims are %v, %v", v.WriteClaims, v.PastClaims)
	}
	before := w.db()
	if err := batch(req("none", 0), req("a2", csi.ClaimReadyToFree)); err == nil ||
		!strings.Contains(err.Error(), "allocation missing: none") || !strings.Contains(err.Error(), "cannot become ready-to-free") {
		t.Errorf("ClaimCSIVolumes() = %v", err)
	}
	if w.db() != before {
		t.Error("a batch without a valid claim changed the volume")
	}
	if err := batch(); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
}

func TestEndedCSIClaims(t *testing.T) {
	w := withCSI(t)
	for _, id := range []string{"a3", "a2", "a1"} {
		w.ok(w.claim(id, csi.ClaimWrite))
	}
	ended := func() (out []string) {
		for _, c := range w.snap().EndedCSIClaims(w.db()) {
			out = append(out, c.AllocationID+" "+c.State.String())
		}
		return out
	}
	want := func(when string, want ...string) {
		t.Helper()
		if got := ended(); !slices.Equal(got, want) {
			t.Errorf("%s: EndedCSIClaims() = %q, want %q", when, got, want)
		}
	}
	want("all run")
	w.ok(w.ApplyPlanResults(w.next(), &message.ApplyPlanResultsRequest{AllocsStopped: []*nomad.AllocationDiff{{ID: "a1"}}}))
	want("one is stopping")
	w.report("a2", nomad.AllocClientStatusComplete)
	want("one has ended", "a2 unpublishing")
	w.ok(w.claim("a2", csi.ClaimWrite, step(csi.ClaimUnpublishing)))
	w.ok(w.claim("a2", csi.ClaimWrite, step(csi.ClaimNodeDetached)))
	w.ok(w.Reap(w.next(), &message.EvalReapRequest{Allocs: []string{"a1"}}))
	want("one is gone", "a1 unpublishing", "a2 node-detached")
	w.ok(w.claim("a3", csi.ClaimWrite, step(csi.ClaimUnpublishing)))
	want("its client releases it while it runs", "a1 unpublishing", "a2 node-detached", "a3 unpublishing")
	if w.db().WriteClaims["a1"].State != csi.ClaimTaken {
		t.Error("a stored claim was changed")
	}
}

func TestDeregisterCSIVolumes(t *testing.T) {
	deregister := func(w *world, force bool, ids ...string) error {
		_, err := w.DeregisterCSIVolumes(w.next(), &message.CSIVolumeDeregisterRequest{VolumeIDs: ids, Force: force,
			WriteRequest: message.WriteRequest{Namespace: "default"}})
		return err
	}
	w := withCSI(t)
	w.csiVolume("free", "ebs")
	w.ok(w.claim("a1", csi.ClaimWrite))
	for i, c := range []struct {
		before func()
		force  bool
		ids    []string
		want   error
	}{
		{nil, false, []string{"free", "none"}, csi.ErrVolumeNotFound},
		{nil, true, []string{"none"}, csi.ErrVolumeNotFound},
		{nil, false, []string{"free", "db"}, csi.ErrVolumeInUse},
		{nil, true, []string{"db"}, csi.ErrVolumeInUse},
		{func() { w.report("a1", nomad.AllocClientStatusComplete) }, false, []string{"db"}, csi.ErrVolumeInUse},
		{nil, true, []string{"db", "free"}, nil},
	} {
		if c.before != nil {
			c.before()
		}
		if err := deregister(w, c.force, c.ids...); !errors.Is(err, c.want) {
			t.Errorf("case %d: DeregisterCSIVolumes() = %v, want %v", i, err, c.want)
		}
		if gone := w.snap().CSIVolume(nil, "default", "free") == nil; gone != (c.want == nil) {
			t.Errorf("case %d: the volume free is gone: %t", i, gone)
		}
	}
}

func TestCSIVolumesOnNode(t *testing.T) {
	w := withCSI(t)
	w.csiVolume("disk[1]", "efs")
	j := w.job("db", func(j *nomad.Job) {
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"each": {Type: "csi", Source: "disk", PerAlloc: true},
			"none": {Type: "csi", Source: "gone"}, "one": {Type: "csi", Source: "db"}}
	})
	want := func(when, node string, want map[string]map[string]bool) {
		t.Helper()
		if got := w.snap().CSIVolumesOnNode(node); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: CSIVolumesOnNode(%s) = %v, want %v", when, node, got, want)
		}
	}
	none := map[string]map[string]bool{}
	db := map[string]map[string]bool{"ebs": {"default/db": true}}
	want("at first", "n1", none)
	w.ok(w.claim("a1", csi.ClaimWrite))
	want("claimed", "n1", db)
	want("claimed", "n2", none)
	w.report("a1", nomad.AllocClientStatusComplete)
	w.ok(w.claim("a1", csi.ClaimWrite, step(csi.ClaimUnpublishing)))
	want("being released", "n1", db)
	w.place(j, func(a *nomad.Allocation) { a.NodeID, a.Name = "n2", "db.g[1]" }, "b1")
	want("requested", "n2", map[string]map[string]bool{"ebs": {"default/db": true}, "efs": {"default/disk[1]": true}})
	w.report("b1", nomad.AllocClientStatusFailed)
	want("ended", "n2", none)
}
