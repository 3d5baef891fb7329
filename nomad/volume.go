package nomad

// ClientHostNetworkConfig is a named network of a node, from the client's
// configuration.
type ClientHostNetworkConfig struct {
	Name          string
	CIDR          string
	Interface     string
	ReservedPorts string
}

// ClientHostVolumeConfig is a directory of a node that jobs may mount, from the
// client's configuration or made by a plugin (ID is then set).
type ClientHostVolumeConfig struct {
	Name     string
	Path     string
	ReadOnly bool
	ID       string
}

// The types of volumes that jobs ask for.
const (
	VolumeTypeHost = "host"
	VolumeTypeCSI  = "csi"
)

// VolumeAccessMode is how many allocations on how many nodes may use a volume, and
// whether they may write.
type VolumeAccessMode string

// VolumeAttachmentMode is file-system or block-device.
type VolumeAttachmentMode string

// VolumeMount mounts a volume of the group into a task.
type VolumeMount struct {
	Volume          string
	Destination     string
	ReadOnly        bool
	PropagationMode string
	SELinuxLabel    string
}

// VolumeRequest asks for a volume under the name that volume mounts of the group's
// tasks use.
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
