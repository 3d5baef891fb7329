package drain

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// mounted reports whether a plugin of an allocation must still unmount volumes on a draining node. Without the plugin they would
// stay mounted. Volumes of allocations that the drain does not stop do not count.
func (p *planner) mounted(n *nomad.Node, a *nomad.Allocation) bool {
	for _, t := range a.Job.TaskGroup(a.TaskGroup).Tasks {
		if t.CSIPluginConfig == nil {
			continue
		}
		for v := range p.snap.CSIVolumesByPlugin(p.ws, t.CSIPluginConfig.ID) {
			for _, claims := range []map[string]*csi.Claim{v.ReadClaims, v.WriteClaims} {
				for alloc := range claims {
					if p.mounts(n, v.ClaimOf(alloc)) {
						return true
					}
				}
			}
		}
	}
	return false
}

// mounts reports whether a volume may be mounted on a draining node for a claim whose allocation has ended or will end.
func (p *planner) mounts(n *nomad.Node, c *csi.Claim) bool {
	if c.State != csi.ClaimTaken && c.State != csi.ClaimUnpublishing {
		return false
	}
	a := p.snap.Alloc(nil, c.AllocationID) // the node is watched
	if a == nil {
		return c.NodeID == n.ID
	}
	return a.NodeID == n.ID && (a.ClientTerminalStatus() || concerns(n.DrainStrategy, a))
}
