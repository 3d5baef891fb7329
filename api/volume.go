package api

// Types of volumes.
const (
	CSIVolumeTypeHost = "host"
	CSIVolumeTypeCSI  = "csi"
)

// CSIMountOptions are the file system and mount flags of a CSI volume.
type CSIMountOptions struct {
	FSType     string   `hcl:"fs_type"`
	MountFlags []string `hcl:"mount_flags"`
}
