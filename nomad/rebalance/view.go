package rebalance

import (
	"iter"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// view is a snapshot in which the planned moves have been made.
type view struct {
	*state.Snapshot
	moved   map[string]*nomad.Allocation   // by ID, on the new node
	arrived map[string][]*nomad.Allocation // by new node
}

func newView(snap *state.Snapshot) *view {
	return &view{Snapshot: snap, moved: map[string]*nomad.Allocation{}, arrived: map[string][]*nomad.Allocation{}}
}

// move replaces an allocation of the snapshot with one on another node.
func (v *view) move(old, moved *nomad.Allocation) {
	v.moved[old.ID] = moved
	v.arrived[moved.NodeID] = append(v.arrived[moved.NodeID], moved)
}

// AllocsByJob implements scheduler.State.
func (v *view) AllocsByJob(ws memdb.WatchSet, ns, job string) iter.Seq[*nomad.Allocation] {
	return func(yield func(*nomad.Allocation) bool) {
		for a := range v.Snapshot.AllocsByJob(ws, ns, job) {
			if m := v.moved[a.ID]; m != nil {
				a = m
			}
			if !yield(a) {
				return
			}
		}
	}
}

// LiveAllocsByNode implements scheduler.State.
func (v *view) LiveAllocsByNode(node string) iter.Seq[*nomad.Allocation] {
	return func(yield func(*nomad.Allocation) bool) {
		for a := range v.Snapshot.LiveAllocsByNode(node) {
			if v.moved[a.ID] == nil && !yield(a) {
				return
			}
		}
		for _, a := range v.arrived[node] {
			if !yield(a) {
				return
			}
		}
	}
}

// CSIVolumesOnNode implements scheduler.State. A node that allocations leave has their volumes until they are detached.
func (v *view) CSIVolumesOnNode(node string) map[string]map[string]bool {
	on := v.Snapshot.CSIVolumesOnNode(node)
	for _, a := range v.arrived[node] {
		for _, r := range a.CSIRequests(a.Job) {
			volume := v.CSIVolume(nil, a.Namespace, r.SourceFor(a.Name))
			if volume == nil {
				continue
			}
			if on[volume.PluginID] == nil {
				on[volume.PluginID] = map[string]bool{}
			}
			on[volume.PluginID][volume.Namespace+"/"+volume.ID] = true
		}
	}
	return on
}

// capacityOf returns what a node offers to allocations.
func capacityOf(n *nomad.Node) nomad.Used { return feasible.Capacity(n) }
