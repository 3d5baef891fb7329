package nomad

// ClientHostNetworkConfig is a named network of a node, from the client's configuration.
type ClientHostNetworkConfig struct {
	Name          string
	CIDR          string
	Interface     string
	ReservedPorts string
}

// ClientHostVolumeConfig is a directory of a node that jobs may mount. It comes from the client's configuration or, if ID is
// set, from a plugin.
type ClientHostVolumeConfig struct {
	Name     string
	Path     string
	ReadOnly bool
	ID       string
}

// The types of volumes that jobs can request.
const (
	VolumeTypeHost = "host"
	VolumeTypeCSI  = "csi"
)

// VolumeAccessMode specifies how many allocations on how many nodes may use a volume, and whether they may write.
type VolumeAccessMode string

// VolumeAttachmentMode is file-system or block-device.
type VolumeAttachmentMode string

// VolumeCapability is a combination of modes in which a volume may be used.
type VolumeCapability struct {
	AttachmentMode VolumeAttachmentMode
	AccessMode     VolumeAccessMode
}

// VolumeMount mounts a volume of the group into a task.
type VolumeMount struct {
	Volume          string
	Destination     string
	ReadOnly        bool
	PropagationMode string
	SELinuxLabel    string
	// Owner is VolumeOwnerTask, or "" to keep the owners of files. It exists only in open-nomad.
	Owner string `json:",omitempty" codec:",omitempty"`
}

// VolumeRequest requests a volume. Volume mounts of the group's tasks refer to it by name.
type VolumeRequest struct {
	Name           string
	Type           string
	Source         string
	ReadOnly       bool
	Sticky         bool
	AccessMode     VolumeAccessMode
	AttachmentMode VolumeAttachmentMode
	MountOptions   *CSIMountOptions
	PerAlloc       bool
}
