package nomad

import "slices"

// Capability returns the modes that the request asks for, with their defaults.
func (v *VolumeRequest) Capability() VolumeCapability {
	c := VolumeCapability{AttachmentMode: v.AttachmentMode, AccessMode: v.AccessMode}
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
