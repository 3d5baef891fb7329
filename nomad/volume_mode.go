package nomad

import (
	"slices"
	"strings"
)

// The access modes of volumes. Host volumes support only the single-node modes.
const (
	VolumeSingleNodeReader       VolumeAccessMode = "single-node-reader-only"
	VolumeSingleNodeWriter       VolumeAccessMode = "single-node-writer"
	VolumeSingleNodeSingleWriter VolumeAccessMode = "single-node-single-writer"
	VolumeSingleNodeMultiWriter  VolumeAccessMode = "single-node-multi-writer"
	VolumeMultiNodeReader        VolumeAccessMode = "multi-node-reader-only"
	VolumeMultiNodeSingleWriter  VolumeAccessMode = "multi-node-single-writer"
	VolumeMultiNodeMultiWriter   VolumeAccessMode = "multi-node-multi-writer"
)

// The attachment modes of volumes.
const (
	VolumeAttachFilesystem  VolumeAttachmentMode = "file-system"
	VolumeAttachBlockDevice VolumeAttachmentMode = "block-device"
)

// The propagation modes of later mounts below a volume's directory.
const (
	VolumeMountPrivate       = "private"
	VolumeMountHostToTask    = "host-to-task"
	VolumeMountBidirectional = "bidirectional"
)

// The SELinux labels of mounts.
const (
	SELinuxShared  = "z"
	SELinuxPrivate = "Z"
)

// VolumeOwnerTask is the owner of a volume whose files belong to the user of the task.
const VolumeOwnerTask = "task"

// OwnsVolume reports whether the files of a volume belong to the user of the task.
func (t *Task) OwnsVolume() bool {
	return slices.ContainsFunc(t.VolumeMounts, func(m *VolumeMount) bool { return m.Owner != "" })
}

// MayPropagate reports whether mounts that a task makes may appear on the node. A mode with a reference is
// resolved only there.
func (m *VolumeMount) MayPropagate() bool {
	return m.PropagationMode == VolumeMountBidirectional || strings.Contains(m.PropagationMode, "${")
}

// Reads reports whether the request is read-only.
func (v *VolumeRequest) Reads() bool {
	return v.ReadOnly || v.AccessMode == VolumeSingleNodeReader || v.AccessMode == VolumeMultiNodeReader
}

// SourceFor returns the name of the volume for the named allocation. With per_alloc, each allocation has a volume of its
// own, such as "data[3]".
func (v *VolumeRequest) SourceFor(alloc string) string {
	if i := strings.LastIndexByte(alloc, '['); v.PerAlloc && i >= 0 {
		return v.Source + alloc[i:]
	}
	return v.Source
}

// MeetsVolume reports whether the node has the host volume of a request, for the named allocation.
func (n *Node) MeetsVolume(v *VolumeRequest, alloc string) bool {
	have := n.HostVolumes[v.SourceFor(alloc)]
	return v.Type == VolumeTypeHost && have != nil && (v.Reads() || !have.ReadOnly)
}
