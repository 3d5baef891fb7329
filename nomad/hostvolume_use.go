package nomad

import "slices"

// Canonicalize sets the fields that have defaults: the plugin ID and the capabilities. A registered volume may have no
// plugin.
func (v *HostVolume) Canonicalize() {
	if len(v.RequestedCapabilities) == 0 {
		v.RequestedCapabilities = []*HostVolumeCapability{{}}
	}
	for _, c := range v.RequestedCapabilities {
		if c == nil {
			continue
		}
		if c.AccessMode == "" {
			c.AccessMode = VolumeSingleNodeWriter
		}
		if c.AttachmentMode == "" {
			c.AttachmentMode = VolumeAttachFilesystem
		}
	}
}

// Followed returns the state of the volume after a change of its node:
//
//	pending ──the ready node has it──▶ ready ──the node is down or lacks it──▶ unavailable
//	                                     ▲                                         │
//	                                     └────────the ready node has it────────────┘
func (v *HostVolume) Followed(n *Node) HostVolumeState {
	have := n.HostVolumes[v.Name]
	present := have != nil && have.ID == v.ID
	switch {
	case present && n.Status == NodeStatusReady:
		return HostVolumeStateReady
	case v.State != HostVolumeStateReady:
		return v.State
	case n.Status == NodeStatusDown, len(n.HostVolumes) > 0 && !present:
		return HostVolumeStateUnavailable
	}
	return v.State
}

// Serves reports whether the volume serves the request of a group in the namespace. It does not check the
// writers of other allocations and the claims.
func (v *HostVolume) Serves(r *VolumeRequest, namespace string) bool {
	if v.Namespace != namespace || v.State != HostVolumeStateReady {
		return false
	}
	want := r.capability()
	has := slices.ContainsFunc(v.RequestedCapabilities, func(c *HostVolumeCapability) bool { return c != nil && *c == want })
	switch {
	case !has:
		return false
	case want.AccessMode == VolumeSingleNodeReader:
		return r.ReadOnly
	case want.AccessMode == VolumeSingleNodeWriter:
		return !r.ReadOnly
	}
	return true
}

// capability returns the modes that the request asks for, with their defaults.
func (v *VolumeRequest) capability() HostVolumeCapability {
	c := HostVolumeCapability{AttachmentMode: v.AttachmentMode, AccessMode: v.AccessMode}
	if c.AttachmentMode == "" {
		c.AttachmentMode = VolumeAttachFilesystem
	}
	if c.AccessMode == "" {
		c.AccessMode = VolumeSingleNodeWriter
		if v.ReadOnly {
			c.AccessMode = VolumeSingleNodeReader
		}
	}
	return c
}

// SingleWriter reports whether at most one allocation may have this read-write request for a volume.
func (v *VolumeRequest) SingleWriter() bool {
	return v.AccessMode == VolumeSingleNodeSingleWriter
}

// WritesHostVolume reports whether the allocation, of the version of its job, may write to the host volume.
func (a *Allocation) WritesHostVolume(volume string, j *Job) bool {
	return a.requests(j, func(v *VolumeRequest) bool { return !v.Reads() && v.SourceFor(a.Name) == volume })
}

// WrittenHostVolumes returns the host volumes that the allocation, of the version of its job, may write to.
func (a *Allocation) WrittenHostVolumes(j *Job) (volumes []string) {
	a.requests(j, func(v *VolumeRequest) bool {
		if source := v.SourceFor(a.Name); !v.Reads() && !slices.Contains(volumes, source) {
			volumes = append(volumes, source)
		}
		return false
	})
	return volumes
}

// SingleWriterVolumes returns the host volumes that the allocation, of the version of its job, writes to alone.
func (a *Allocation) SingleWriterVolumes(j *Job) (volumes []string) {
	a.requests(j, func(v *VolumeRequest) bool {
		if v.SingleWriter() && !v.ReadOnly {
			volumes = append(volumes, v.SourceFor(a.Name))
		}
		return false
	})
	return volumes
}

// HostVolumes returns the names of the host volumes that the allocation, of the version of its job, requests.
func (a *Allocation) HostVolumes(j *Job) (volumes []string) {
	a.requests(j, func(v *VolumeRequest) bool {
		volumes = append(volumes, v.SourceFor(a.Name))
		return false
	})
	return volumes
}

// UsesHostVolume reports whether the allocation requests the host volume with the name.
func (a *Allocation) UsesHostVolume(name string) bool {
	return a.requests(a.Job, func(v *VolumeRequest) bool { return v.SourceFor(a.Name) == name })
}

// requests reports whether is returns true for a request for a host volume of the allocation's group.
func (a *Allocation) requests(j *Job, is func(*VolumeRequest) bool) bool {
	if j == nil {
		return false
	}
	tg := j.TaskGroup(a.TaskGroup)
	if tg == nil {
		return false
	}
	for _, v := range tg.Volumes {
		if v != nil && v.Type == VolumeTypeHost && is(v) {
			return true
		}
	}
	return false
}
