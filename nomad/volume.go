package nomad

// ClientHostNetworkConfig holds the fields of a client host network config.
type ClientHostNetworkConfig struct {
	Name          string
	CIDR          string
	Interface     string
	ReservedPorts string
}

// ClientHostVolumeConfig holds the fields of a client host volume config.
type ClientHostVolumeConfig struct {
	Name     string
	Path     string
	ReadOnly bool
	ID       string
}

// VolumeAccessMode holds the fields of a volume access mode.
type VolumeAccessMode string

// VolumeAttachmentMode holds the fields of a volume attachment mode.
type VolumeAttachmentMode string

// VolumeMount holds the fields of a volume mount.
type VolumeMount struct {
	Volume          string
	Destination     string
	ReadOnly        bool
	PropagationMode string
	SELinuxLabel    string
}

// VolumeRequest holds the fields of a volume request.
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
