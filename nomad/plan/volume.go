package plan

import (
	"github.com/open-nomad/open-nomad/nomad"
)

// singleWriter is the reason for a volume that two allocations would write to, although one of them asks to do so alone.
const singleWriter = "conflicting claims for host volume with single-writer"

// writers returns why the placed allocations cannot write to their volumes together with the others that remain on the
// node, or "". An allocation that an earlier plan stopped writes until its client ends it, unless a placed one waits for
// its end.
func (v view) writers(plan *nomad.Plan, placed, others []*nomad.Allocation) string {
	for i, a := range placed {
		if a.TerminalStatus() || v.snap.Alloc(nil, a.ID) != nil {
			continue // it was checked when it was placed
		}
		for _, volume := range a.SingleWriterVolumes(jobOf(plan, a)) {
			for _, list := range [][]*nomad.Allocation{placed[:i], placed[i+1:], others} {
				for _, b := range list {
					if !b.ClientTerminalStatus() && a.PreviousAllocation != b.ID && b.WritesHostVolume(volume, jobOf(plan, b)) {
						return singleWriter
					}
				}
			}
		}
	}
	return ""
}

// jobOf returns the job of an allocation. One that the plan places may have no job of its own.
func jobOf(plan *nomad.Plan, a *nomad.Allocation) *nomad.Job {
	if a.Job == nil {
		return plan.Job
	}
	return a.Job
}
