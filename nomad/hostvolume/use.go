package hostvolume

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// Canonicalize sets the fields that have defaults: the plugin ID and the capabilities. A registered volume may have no
// plugin.
func (v *Volume) Canonicalize() {
	if len(v.RequestedCapabilities) == 0 {
		v.RequestedCapabilities = []*nomad.VolumeCapability{{}}
	}
	for _, c := range v.RequestedCapabilities {
		if c == nil {
			continue
		}
		if c.AccessMode == "" {
			c.AccessMode = nomad.VolumeSingleNodeWriter
		}
		if c.AttachmentMode == "" {
			c.AttachmentMode = nomad.VolumeAttachFilesystem
		}
	}
}

// Followed returns the state of the volume after a change of its node:
//
//	pending ──the ready node has it──▶ ready ──the node is down or lacks it──▶ unavailable
//	                                     ▲                                         │
//	                                     └────────the ready node has it────────────┘
func (v *Volume) Followed(n *nomad.Node) State {
	have := n.HostVolumes[v.Name]
	present := have != nil && have.ID == v.ID
	switch {
	case present && n.Status == nomad.NodeStatusReady:
		return Ready
	case v.State != Ready:
		return v.State
	case n.Status == nomad.NodeStatusDown, len(n.HostVolumes) > 0 && !present:
		return Unavailable
	}
	return v.State
}

// Serves reports whether the volume serves the request of a group in the namespace. It does not check the
// writers of other allocations and the claims.
func (v *Volume) Serves(r *nomad.VolumeRequest, namespace string) bool {
	if v.Namespace != namespace || v.State != Ready {
		return false
	}
	want := r.Capability()
	has := slices.ContainsFunc(v.RequestedCapabilities, func(c *nomad.VolumeCapability) bool { return c != nil && *c == want })
	switch {
	case !has:
		return false
	case want.AccessMode == nomad.VolumeSingleNodeReader:
		return r.ReadOnly
	case want.AccessMode == nomad.VolumeSingleNodeWriter:
		return !r.ReadOnly
	}
	return true
}
