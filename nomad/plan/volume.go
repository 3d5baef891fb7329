package plan

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
)

// singleWriter is the reason for a volume that two allocations would write to, although one of them asks to do so alone.
const singleWriter = "conflicting claims for host volume with single-writer"

// writers returns why the placed allocations cannot write to their volumes together with the others that remain on the
// node, or "". An allocation that an earlier plan stopped writes until its client ends it, unless a placed one waits for
// its end.
func (v view) writers(placed, others []*nomad.Allocation) string {
	for i, a := range placed {
		if a.TerminalStatus() || v.snap.Alloc(nil, a.ID) != nil {
			continue // it was checked when it was placed
		}
		for _, volume := range a.SingleWriterVolumes(v.jobOf(a)) {
			for _, list := range [][]*nomad.Allocation{placed[:i], placed[i+1:], others} {
				for _, b := range list {
					if !b.ClientTerminalStatus() && a.PreviousAllocation != b.ID && b.WritesHostVolume(volume, v.jobOf(b)) {
						return singleWriter
					}
				}
			}
		}
	}
	return ""
}

// volumes returns why the node lacks a host volume of a placed allocation. The scheduler may have used a state
// from before the volume was deleted, or before its deletion began.
func (v view) volumes(node *nomad.Node, placed []*nomad.Allocation) refusal {
	for _, a := range placed {
		for _, name := range a.HostVolumes(v.jobOf(a)) {
			have := node.HostVolumes[name]
			switch {
			case have == nil:
				return refusal{why: fmt.Sprintf("missing host volume %q", name)}
			case have.ID == "": // a static volume
			case v.snap.HostVolumeByID(have.ID) == nil:
				return refusal{why: fmt.Sprintf("host volume %q has been deleted", name)}
			case v.withheld[have.ID] > 0:
				return refusal{why: fmt.Sprintf("host volume %q is being deleted or updated", name), elsewhere: true}
			}
		}
	}
	return refusal{}
}

// jobOf returns the job of an allocation. One that the plan places may have no job of its own.
func (v view) jobOf(a *nomad.Allocation) *nomad.Job {
	if a.Job == nil {
		return v.job
	}
	return a.Job
}
