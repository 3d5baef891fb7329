package scheduler

import (
	"fmt"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// sharesVolumes reports whether the volumes of a group depend on other allocations: on claims, or on other writers.
func sharesVolumes(tg *nomad.TaskGroup) bool {
	for _, v := range tg.Volumes {
		if v != nil && (v.Sticky || v.SingleWriter()) {
			return true
		}
	}
	return false
}

// volumesTaken returns why the volumes of a node are not free for one more allocation of the group, or "": the group has
// claims on other volumes, or another allocation writes to a volume with a single writer.
func (c *cluster) volumesTaken(tg *nomad.TaskGroup, alloc string, n *nomad.Node) string {
	for _, name := range slices.Sorted(maps.Keys(tg.Volumes)) {
		v := tg.Volumes[name]
		if v == nil || v.Type != nomad.VolumeTypeHost {
			continue
		}
		source := v.SourceFor(alloc)
		if v.Sticky && !c.claimAllows(tg, source, n) {
			return fmt.Sprintf("missing compatible host volume %q: the group has a claim on another one", source)
		}
		if v.SingleWriter() && !v.ReadOnly && c.written(source, n) {
			return fmt.Sprintf("missing compatible host volume %q: it has a single writer", source)
		}
	}
	return ""
}

// claimAllows reports whether the volume of a node is one that the group has claimed and does not use, or the group has
// no such claim. A system job has an allocation on each node, whose volume cannot be another one.
func (c *cluster) claimAllows(tg *nomad.TaskGroup, source string, n *nomad.Node) bool {
	if c.job.Type == nomad.JobTypeSystem || c.job.Type == nomad.JobTypeSysBatch {
		return true
	}
	have, unmet := n.HostVolumes[source], false
	for claim := range c.snap.VolumeClaimsOf(c.job.Namespace, c.job.ID, tg.Name) {
		if claim.VolumeName != source || c.met(claim) {
			continue
		}
		if unmet = true; have != nil && have.ID == claim.VolumeID {
			return true
		}
	}
	return !unmet
}

// met reports whether an allocation of the group uses the claimed volume: the holder of the claim, or one of the plan.
func (c *cluster) met(claim *nomad.TaskGroupHostVolumeClaim) bool {
	for a := range c.snap.AllocsByJob(nil, claim.Namespace, claim.JobID) {
		if a.ID == claim.AllocID && !a.TerminalStatus() && !c.ends(a) {
			return true
		}
	}
	for node, list := range c.plan.NodeAllocation {
		n := c.lookup(node)
		if n == nil || n.HostVolumes[claim.VolumeName] == nil || n.HostVolumes[claim.VolumeName].ID != claim.VolumeID {
			continue
		}
		if slices.ContainsFunc(list, func(a *nomad.Allocation) bool { return a.TaskGroup == claim.TaskGroupName && a.CreateIndex == 0 }) {
			return true
		}
	}
	return false
}

// ends reports whether the plan stops or preempts the allocation.
func (c *cluster) ends(a *nomad.Allocation) bool {
	same := func(b *nomad.Allocation) bool { return b.ID == a.ID }
	return slices.ContainsFunc(c.plan.NodeUpdate[a.NodeID], same) || slices.ContainsFunc(c.plan.NodePreemptions[a.NodeID], same)
}

// written reports whether an allocation of the node, or one that the plan places there, writes to the volume.
func (c *cluster) written(volume string, n *nomad.Node) bool {
	for a := range c.snap.LiveAllocsByNode(n.ID) {
		if !a.TerminalStatus() && !c.ends(a) && a.WritesHostVolume(volume, a.Job) {
			return true
		}
	}
	return slices.ContainsFunc(c.plan.NodeAllocation[n.ID], func(a *nomad.Allocation) bool {
		job := a.Job
		if job == nil {
			job = c.plan.Job
		}
		return !a.TerminalStatus() && a.WritesHostVolume(volume, job)
	})
}
