package plan

import (
	"fmt"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// csiUses are the CSI volumes that a plan uses, with all their uses: the claims, the requests of allocations without a
// claim, and the placements of the commit ahead and of the plan. The checks of the nodes share them.
type csiUses struct {
	view   view
	ends   map[string]bool                // stopped and preempted by the plan, by ID
	placed map[string]bool                // new in the plan, by ID
	added  map[string][]*nomad.Allocation // new in the commit ahead or in the plan, by volume

	mu      sync.Mutex
	volumes map[string]*feasible.CSIVolume // by namespace/ID
}

// csiUses returns the uses of the CSI volumes of a plan, or nil if none of its new allocations requests one.
func (v view) csiUses(plan *nomad.Plan) *csiUses {
	u := &csiUses{view: v, ends: map[string]bool{}, placed: map[string]bool{}, added: map[string][]*nomad.Allocation{},
		volumes: map[string]*feasible.CSIVolume{}}
	for _, allocs := range plan.NodeAllocation {
		for _, a := range allocs {
			if u.add(a) {
				u.placed[a.ID] = true
			}
		}
	}
	if len(u.placed) == 0 {
		return nil
	}
	if v.ahead != nil {
		for _, change := range v.ahead.nodes {
			for _, a := range change.placed {
				u.add(a)
			}
		}
	}
	for _, list := range []map[string][]*nomad.Allocation{plan.NodeUpdate, plan.NodePreemptions} {
		for _, allocs := range list {
			for _, a := range allocs {
				u.ends[a.ID] = true
			}
		}
	}
	return u
}

// add adds an allocation that is not in the state. It reports whether the allocation requests CSI volumes.
func (u *csiUses) add(a *nomad.Allocation) bool {
	requests := a.CSIRequests(u.view.jobOf(a))
	if len(requests) == 0 || u.view.snap.Alloc(nil, a.ID) != nil {
		return false
	}
	seen := map[string]bool{}
	for _, r := range requests {
		if key := csiKey(a.Namespace, r.SourceFor(a.Name)); !seen[key] {
			seen[key] = true
			u.added[key] = append(u.added[key], a)
		}
	}
	return true
}

func csiKey(namespace, id string) string { return namespace + "/" + id }

// volume returns a volume with its uses, or nil if it does not exist.
func (u *csiUses) volume(namespace, id string) *feasible.CSIVolume {
	u.mu.Lock()
	defer u.mu.Unlock()
	key, snap := csiKey(namespace, id), u.view.snap
	v, known := u.volumes[key]
	if known {
		return v
	}
	if stored := snap.CSIVolume(nil, namespace, id); stored != nil {
		v = feasible.NewCSIVolume(snap.ShownCSIVolume(nil, stored), feasible.CSIUsers{
			All: func(yield func(*nomad.Allocation) bool) {
				for a := range snap.CSIVolumeUsers(nil, namespace, id) {
					if !u.view.ahead.on(a.NodeID).hasEnded(a.ID) && !yield(a) {
						return
					}
				}
				for _, a := range u.added[key] {
					if !yield(a) {
						return
					}
				}
			},
			Alloc: func(id string) *nomad.Allocation { return snap.Alloc(nil, id) },
			JobOf: u.view.jobOf,
		})
	}
	u.volumes[key] = v
	return v
}

// hasEnded reports whether the allocation uses nothing any more after the change.
func (c *nodeChange) hasEnded(id string) bool { return c != nil && c.ended[id] }

// stops reports whether an allocation ends before a new one starts, which the client of the new one waits for. Of the new
// allocations of the plan, the ones with the lower IDs go first.
func (u *csiUses) stops(other, placed *nomad.Allocation) bool {
	if change := u.view.ahead.on(other.NodeID); change != nil && change.gone[other.ID] {
		return true
	}
	return u.ends[other.ID] || other.ID == placed.PreviousAllocation || u.placed[other.ID] && other.ID >= placed.ID
}

// reject returns why the new allocations of a node cannot use their CSI volumes, or "". The scheduler may have used a state from
// before another job claimed the volume, or before the volume was deregistered.
func (u *csiUses) reject(node *nomad.Node, added []*nomad.Allocation) string {
	if u == nil {
		return ""
	}
	added = slices.DeleteFunc(slices.Clone(added), (*nomad.Allocation).TerminalStatus)
	for _, a := range added {
		for _, r := range a.CSIRequests(u.view.jobOf(a)) {
			if why := u.refuse(a, r); why != "" {
				return why
			}
		}
	}
	return u.exceeded(node, added)
}

// refuse returns why a new allocation cannot use the volume of a request.
func (u *csiUses) refuse(a *nomad.Allocation, r *nomad.VolumeRequest) string {
	id := r.SourceFor(a.Name)
	v := u.volume(a.Namespace, id)
	switch {
	case v == nil:
		return fmt.Sprintf("CSI volume %q does not exist", id)
	case u.view.withheld[csi.Resource(a.Namespace, id)] > 0:
		return fmt.Sprintf("CSI volume %q is being deleted", id)
	}
	w := feasible.NewCSIWant(r, a, v, func(other *nomad.Allocation) bool { return u.stops(other, a) })
	if w.Refusal.By != nil {
		return fmt.Sprintf("conflicting claims for CSI volume %q", id)
	}
	return w.Refusal.Text
}

// exceeded returns why a node cannot attach the volumes of its new allocations, or "".
func (u *csiUses) exceeded(node *nomad.Node, added []*nomad.Allocation) string {
	var on map[string]map[string]bool // by plugin; nil until it is needed
	for _, a := range added {
		for _, r := range a.CSIRequests(u.view.jobOf(a)) {
			v := u.volume(a.Namespace, r.SourceFor(a.Name))
			limit := node.CSINodePlugins[v.PluginID].VolumeLimit()
			if limit == 0 {
				continue
			}
			if on == nil {
				on = u.attached(node, added)
			}
			has, key := on[v.PluginID], csiKey(v.Namespace, v.ID)
			if has[key] {
				continue
			}
			if int64(len(has)) >= limit {
				return fmt.Sprintf("CSI plugin %q has the maximum number of volumes", v.PluginID)
			}
			if has == nil {
				has = map[string]bool{}
				on[v.PluginID] = has
			}
			has[key] = true
		}
	}
	return ""
}

// attached returns the volumes of a node by plugin, without those of its new allocations and without those that only the
// predecessors of these use.
func (u *csiUses) attached(node *nomad.Node, added []*nomad.Allocation) map[string]map[string]bool {
	on := u.view.snap.CSIVolumesOnNode(node.ID)
	if change := u.view.ahead.on(node.ID); change != nil {
		for _, a := range change.placed {
			for _, r := range a.CSIRequests(u.view.jobOf(a)) {
				if v := u.volume(a.Namespace, r.SourceFor(a.Name)); v != nil {
					if on[v.PluginID] == nil {
						on[v.PluginID] = map[string]bool{}
					}
					on[v.PluginID][csiKey(v.Namespace, v.ID)] = true
				}
			}
		}
	}
	for _, a := range added {
		before := u.view.snap.Alloc(nil, a.PreviousAllocation)
		if before == nil || before.NodeID != node.ID {
			continue
		}
		for _, r := range before.CSIRequests(before.Job) {
			v := u.volume(before.Namespace, r.SourceFor(before.Name))
			if v != nil && !v.OnNodeBeside(node.ID, func(id string) bool { return id == before.ID || u.placed[id] }) {
				delete(on[v.PluginID], csiKey(v.Namespace, v.ID))
			}
		}
	}
	return on
}
