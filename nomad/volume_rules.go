package nomad

import "strings"

// How many allocations on how many nodes may use a volume. Those of a host volume
// begin with single-node.
const (
	VolumeSingleNodeReader       VolumeAccessMode = "single-node-reader-only"
	VolumeSingleNodeWriter       VolumeAccessMode = "single-node-writer"
	VolumeSingleNodeSingleWriter VolumeAccessMode = "single-node-single-writer"
	VolumeSingleNodeMultiWriter  VolumeAccessMode = "single-node-multi-writer"
	VolumeMultiNodeReader        VolumeAccessMode = "multi-node-reader-only"
	VolumeMultiNodeSingleWriter  VolumeAccessMode = "multi-node-single-writer"
	VolumeMultiNodeMultiWriter   VolumeAccessMode = "multi-node-multi-writer"
)

// As what a volume is given to a task.
const (
	VolumeAttachFilesystem  VolumeAttachmentMode = "file-system"
	VolumeAttachBlockDevice VolumeAttachmentMode = "block-device"
)

// Whether later mounts below a volume's directory are seen on the other side.
const (
	VolumeMountPrivate       = "private"
	VolumeMountHostToTask    = "host-to-task"
	VolumeMountBidirectional = "bidirectional"
)

// Reads reports whether nobody writes through the request.
func (v *VolumeRequest) Reads() bool {
	return v.ReadOnly || v.AccessMode == VolumeSingleNodeReader || v.AccessMode == VolumeMultiNodeReader
}

// SourceFor is the name of the volume that the allocation of the name gets: with
// per_alloc one of its own, such as "data[3]".
func (v *VolumeRequest) SourceFor(alloc string) string {
	if i := strings.LastIndexByte(alloc, '['); v.PerAlloc && i >= 0 {
		return v.Source + alloc[i:]
	}
	return v.Source
}

// MeetsVolume reports whether the node has the host volume of a request, for the
// allocation of the name.
func (n *Node) MeetsVolume(v *VolumeRequest, alloc string) bool {
	have := n.HostVolumes[v.SourceFor(alloc)]
	return v.Type == VolumeTypeHost && have != nil && (v.Reads() || !have.ReadOnly)
}
