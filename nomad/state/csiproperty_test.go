package state_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// csiWorld applies random entries about CSI volumes, plugins, and what these depend on.
type csiWorld struct {
	*world
	*rand.Rand
	allocs int                       // number of the last allocation
	states map[string]csi.ClaimState // of the claims, by volume/allocation
	freed  int
}

// TestCSIProperty checks after each of many random entries what always holds for claims and plugins. In the end it releases
// all claims as a leader does.
func TestCSIProperty(t *testing.T) {
	held, freed := 0, 0
	for seed := range uint64(20) {
		w := &csiWorld{world: newWorld(t), Rand: rand.New(rand.NewPCG(seed, 41)), states: map[string]csi.ClaimState{}}
		w.start()
		for n := range 300 {
			w.change()
			w.check(n%40 == 39)
			held += len(w.states)
			if t.Failed() {
				t.Fatalf("seed %d, after entry %d", seed, n)
			}
		}
		w.releaseAll()
		freed += w.freed
		if t.Failed() {
			t.Fatalf("seed %d, after the releases", seed)
		}
	}
	if held < 1000 || freed < 50 {
		t.Errorf("%d claims were held, and %d freed: too few for a test", held, freed)
	}
}

// start runs the plugin ebs on a node.
func (w *csiWorld) start() {
	j := w.pluginJob("node", nomad.JobTypeSystem, 1, "ebs/monolith")
	w.node("n0")
	w.place(j, on("n0"), "a0")
	w.reportPlugins("n0", "ebs/controller/a0", "ebs/node/a0")
	w.csiVolume("v0", "ebs")
	for range 3 {
		w.placeSome()
	}
}

// try applies an entry, which may be refused.
func (w *csiWorld) try(_ *state.Changes, _ error) {}

func (w *csiWorld) nodeID() string { return fmt.Sprint("n", w.IntN(3)) }

func (w *csiWorld) alloc() string { return fmt.Sprint("a", w.IntN(w.allocs+1)) }

func (w *csiWorld) change() {
	switch w.IntN(16) {
	case 0:
		w.pluginJob("node", nomad.JobTypeSystem, 1, []string{"ebs/node", "ebs/monolith", "efs/node"}[w.IntN(3)])
	case 1:
		w.pluginJob("controller", nomad.JobTypeService, w.IntN(3), "ebs/controller")
	case 2:
		w.try(w.DeregisterJob(w.next(), &message.JobDeregisterRequest{JobID: []string{"node", "controller", "web"}[w.IntN(3)],
			Purge: w.IntN(2) == 0, WriteRequest: message.WriteRequest{Namespace: "default"}}))
	case 3, 4:
		w.placeSome()
	case 5, 6, 7:
		w.reportSome()
	case 8:
		w.report(w.alloc(), []string{"running", "complete", "failed", "lost", "unknown"}[w.IntN(5)])
	case 9:
		w.endSome()
	case 10:
		v := &csi.Volume{ID: fmt.Sprint("v", w.IntN(2)), Namespace: "default", PluginID: []string{"ebs", "ebs", "efs"}[w.IntN(3)],
			RequestedCapabilities: []*csi.Capability{{AccessMode: "multi-node-multi-writer"}}}
		w.try(w.RegisterCSIVolumes(w.next(), &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{v}}))
	case 11:
		ids := []string{fmt.Sprint("v", w.IntN(2))}
		req := &message.CSIVolumeDeregisterRequest{VolumeIDs: ids, Force: w.IntN(4) == 0, WriteRequest: message.WriteRequest{Namespace: "default"}}
		if _, err := w.DeregisterCSIVolumes(w.next(), req); err == nil {
			for key := range w.states {
				if key[:2] == ids[0] {
					delete(w.states, key)
				}
			}
		}
	default:
		w.claimSome()
	}
}

// placeSome places an allocation of a job that exists.
func (w *csiWorld) placeSome() {
	id := []string{"node", "controller", "web"}[w.IntN(3)]
	j := w.snap().Job(nil, "default", id)
	if j == nil {
		j = w.job("web")
	}
	w.allocs++
	w.place(j, on(w.nodeID()), fmt.Sprint("a", w.allocs))
}

// reportSome registers a node with instances of plugins: mostly those of its allocations, often some that it does not run.
func (w *csiWorld) reportSome() {
	node := w.nodeID()
	var instances []string
	for a := range w.snap().AllocsByNode(nil, node) {
		for _, part := range csi.PartsOf(a.Job.TaskGroups[0]) {
			text := fmt.Sprintf("%s/%s/%s", part.Plugin, part.Kind, a.ID)
			switch w.IntN(6) {
			case 0:
				text += "!"
			case 1:
				continue
			}
			instances = append(instances, text)
		}
	}
	if w.IntN(4) == 0 {
		instances = append(instances, fmt.Sprintf("ebs/controller/%s", w.alloc()))
	}
	w.reportPlugins(node, instances...)
}

// endSome stops or collects an allocation, or loses or removes a node.
func (w *csiWorld) endSome() {
	switch w.IntN(4) {
	case 0:
		w.ok(w.ApplyPlanResults(w.next(), &message.ApplyPlanResultsRequest{AllocsStopped: []*nomad.AllocationDiff{{ID: w.alloc()}}}))
	case 1:
		if a := w.snap().Alloc(nil, w.alloc()); a != nil && a.ClientTerminalStatus() {
			w.ok(w.Reap(w.next(), &message.EvalReapRequest{Allocs: []string{a.ID}}))
		}
	case 2:
		w.try(w.UpdateNodeStatus(w.next(), &message.NodeUpdateStatusRequest{NodeID: w.nodeID(), Status: nomad.NodeStatusDown}))
	case 3:
		w.try(w.DeregisterNodes(w.next(), state.Deregistration{IDs: []string{w.nodeID()}}))
	}
}

// claimSome submits a claim or a step of a release: usually a sensible one, sometimes any.
func (w *csiWorld) claimSome() {
	volume := fmt.Sprint("v", w.IntN(2))
	modes := []nomad.VolumeAccessMode{"single-node-reader-only", "single-node-writer", "multi-node-reader-only", "multi-node-single-writer",
		"multi-node-multi-writer", ""}
	to, alloc := csi.ClaimState(0), w.alloc()
	if v := w.snap().CSIVolume(nil, "default", volume); v != nil && w.IntN(2) == 0 {
		if ended := w.snap().EndedCSIClaims(v); len(ended) > 0 {
			c := ended[w.IntN(len(ended))]
			alloc, to = c.AllocationID, following(v.ClaimOf(c.AllocationID).State)
		}
	}
	if w.IntN(8) == 0 {
		to = csi.ClaimState(w.IntN(6))
	}
	w.try(w.claim(alloc, csi.ClaimMode(w.IntN(2)), step(to), access(modes[w.IntN(len(modes))]),
		func(r *message.CSIVolumeClaimRequest) { r.VolumeID = volume }))
}

// following returns the next state of a release.
func following(s csi.ClaimState) csi.ClaimState {
	for _, by := range []csi.ClaimEvent{csi.EventEnd, csi.EventNodeDetach, csi.EventControllerDetach} {
		if next, err := s.Next(by); err == nil {
			return next
		}
	}
	return s
}

// check checks the volumes and plugins. With all it also checks that a restore gives the same.
func (w *csiWorld) check(all bool) {
	w.t.Helper()
	s := w.snap()
	now := map[string]csi.ClaimState{}
	for v := range s.CSIVolumes(nil) {
		if checkClaims(w.t.(*testing.T), v); !claimsFit(v) {
			w.t.Errorf("volume %s has the mode %s, %d readers and %d writers", v.ID, v.AccessMode, len(v.ReadClaims), len(v.WriteClaims))
		}
		ended := s.EndedCSIClaims(v)
		for _, claims := range []map[string]*csi.Claim{v.ReadClaims, v.WriteClaims} {
			for id := range claims {
				now[v.ID+"/"+id] = v.ClaimOf(id).State
				a := s.Alloc(nil, id)
				listed := slices.ContainsFunc(ended, func(c *csi.Claim) bool { return c.AllocationID == id && c.State != csi.ClaimTaken })
				if over := a == nil || a.ClientTerminalStatus() || v.PastClaims[id] != nil; over != listed {
					w.t.Errorf("the claim of %s on %s has ended: %t, and is listed: %t", id, v.ID, over, listed)
				}
			}
		}
	}
	for key, before := range w.states {
		if _, held := now[key]; held {
			continue
		}
		if w.freed++; before != csi.ClaimNodeDetached {
			w.t.Errorf("the claim %s was freed while it was %s", key, before)
		}
	}
	w.states = now
	w.checkPlugins(s)
	if all {
		w.sameAs(w.restored().snap())
	}
}

// claimsFit reports whether the mode of a volume allows its claims.
func claimsFit(v *csi.Volume) bool {
	readers, writers := len(v.ReadClaims), len(v.WriteClaims)
	switch v.AccessMode {
	case nomad.VolumeSingleNodeReader:
		return readers <= 1 && writers == 0
	case nomad.VolumeSingleNodeWriter:
		return readers <= 1 && writers <= 1
	case nomad.VolumeMultiNodeReader:
		return writers == 0
	case nomad.VolumeMultiNodeSingleWriter:
		return writers <= 1
	}
	return v.AccessMode == nomad.VolumeMultiNodeMultiWriter || readers+writers == 0
}

// checkPlugins compares the records of plugins with a count of the nodes and jobs.
func (w *csiWorld) checkPlugins(s *state.Snapshot) {
	w.t.Helper()
	healthy, expected, exists := map[csi.Part]int{}, map[csi.Part]int{}, map[string]bool{}
	for j := range s.Jobs(nil) {
		for part, n := range csi.Expected(j, s.JobSummary(nil, j.Namespace, j.ID)) {
			expected[part] += n
			exists[part.Plugin] = true
		}
	}
	for n := range s.Nodes(nil) {
		for kind, infos := range map[nomad.CSIPluginType]map[string]*nomad.CSIInfo{csi.PluginController: n.CSIControllerPlugins,
			csi.PluginNode: n.CSINodePlugins} {
			for id, info := range infos {
				part := csi.Part{Plugin: id, Kind: kind}
				a := s.Alloc(nil, info.AllocID)
				if !info.Healthy || a == nil || a.NodeID != n.ID || a.TerminalStatus() || !slices.Contains(csi.PartsOf(a.Job.TaskGroups[0]), part) {
					continue
				}
				healthy[part]++
				exists[id] = true
			}
		}
	}
	for _, id := range []string{"ebs", "efs"} {
		p := s.CSIPlugin(nil, id)
		if p == nil {
			p = csi.NewPlugin(id)
			if exists[id] {
				w.t.Errorf("the plugin %s has no record", id)
			}
		} else if p.Empty() {
			w.t.Errorf("the record of %s is empty", id)
		}
		controller, node := csi.Part{Plugin: id, Kind: csi.PluginController}, csi.Part{Plugin: id, Kind: csi.PluginNode}
		got := [4]int{p.ControllersHealthy, p.ControllersExpected, p.NodesHealthy, p.NodesExpected}
		if want := [4]int{healthy[controller], expected[controller], healthy[node], expected[node]}; got != want {
			w.t.Errorf("the counts of %s are %v, want %v", id, got, want)
		}
	}
}

// sameAs compares the volumes and plugins with those of another state.
func (w *csiWorld) sameAs(other *state.Snapshot) {
	w.t.Helper()
	s := w.snap()
	if got, want := slices.Collect(other.CSIPlugins(nil)), slices.Collect(s.CSIPlugins(nil)); !reflect.DeepEqual(got, want) {
		w.t.Errorf("after a restore the plugins are %+v, want %+v", got, want)
	}
	if got, want := slices.Collect(other.CSIVolumes(nil)), slices.Collect(s.CSIVolumes(nil)); !reflect.DeepEqual(got, want) {
		w.t.Errorf("after a restore the volumes are %+v, want %+v", got, want)
	}
}

// releaseAll ends all allocations, and releases their claims step by step until no volume is in use.
func (w *csiWorld) releaseAll() {
	w.t.Helper()
	for a := range w.snap().Allocs(nil) {
		w.report(a.ID, nomad.AllocClientStatusComplete)
	}
	w.check(false)
	for range 4 {
		for v := range w.snap().CSIVolumes(nil) {
			for _, c := range w.snap().EndedCSIClaims(v) {
				w.ok(w.claim(c.AllocationID, c.Mode, step(following(v.ClaimOf(c.AllocationID).State)),
					func(r *message.CSIVolumeClaimRequest) { r.VolumeID = v.ID }))
				w.check(false)
			}
		}
	}
	for v := range w.snap().CSIVolumes(nil) {
		if v.InUse() {
			w.t.Errorf("volume %s is still in use: %+v", v.ID, v)
		}
	}
}
