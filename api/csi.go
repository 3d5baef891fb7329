package api

import "time"

// Types of volumes.
const (
	CSIVolumeTypeHost = "host"
	CSIVolumeTypeCSI  = "csi"
)

// CSIVolumeAttachmentMode is how a CSI volume is attached.
type CSIVolumeAttachmentMode string

// Attachment modes of a CSI volume.
const (
	CSIVolumeAttachmentModeUnknown     CSIVolumeAttachmentMode = ""
	CSIVolumeAttachmentModeBlockDevice CSIVolumeAttachmentMode = "block-device"
	CSIVolumeAttachmentModeFilesystem  CSIVolumeAttachmentMode = "file-system"
)

// CSIVolumeAccessMode is who may use a CSI volume at once.
type CSIVolumeAccessMode string

// Access modes of a CSI volume.
const (
	CSIVolumeAccessModeUnknown               CSIVolumeAccessMode = ""
	CSIVolumeAccessModeSingleNodeReader      CSIVolumeAccessMode = "single-node-reader-only"
	CSIVolumeAccessModeSingleNodeWriter      CSIVolumeAccessMode = "single-node-writer"
	CSIVolumeAccessModeMultiNodeReader       CSIVolumeAccessMode = "multi-node-reader-only"
	CSIVolumeAccessModeMultiNodeSingleWriter CSIVolumeAccessMode = "multi-node-single-writer"
	CSIVolumeAccessModeMultiNodeMultiWriter  CSIVolumeAccessMode = "multi-node-multi-writer"
)

// CSISecrets are passed to the plugin of a volume. No response contains them.
type CSISecrets map[string]string

// CSIMountOptions are the file system and mount flags of a CSI volume. Responses have [REDACTED] instead of flags.
type CSIMountOptions struct {
	FSType     string   `hcl:"fs_type"`
	MountFlags []string `hcl:"mount_flags"`
}

// CSIVolumeCapability is a combination of modes in which a CSI volume may be used.
type CSIVolumeCapability struct {
	AccessMode     CSIVolumeAccessMode
	AttachmentMode CSIVolumeAttachmentMode
}

// CSITopologyRequest are the locations that a new volume must or should be accessible from.
type CSITopologyRequest struct {
	Required  []*CSITopology
	Preferred []*CSITopology
}

// CSIVolume is a volume of a storage system that a CSI plugin serves. Register and Create use the fields up to
// SnapshotID, without Topologies and Capacity.
type CSIVolume struct {
	ID                    string
	Name                  string
	ExternalID            string
	Namespace             string
	RequestedTopologies   *CSITopologyRequest
	Topologies            []*CSITopology          // the locations that the volume is accessible from
	AccessMode            CSIVolumeAccessMode     // of the allocations that use the volume, "" without any
	AttachmentMode        CSIVolumeAttachmentMode // of the allocations that use the volume, "" without any
	MountOptions          *CSIMountOptions
	Secrets               CSISecrets
	Parameters            map[string]string
	Context               map[string]string
	Capacity              int64 // bytes
	RequestedCapacityMin  int64 // bytes
	RequestedCapacityMax  int64 // bytes
	RequestedCapabilities []*CSIVolumeCapability
	CloneID               string
	SnapshotID            string
	// ReadAllocs and WriteAllocs have the IDs of the allocations that use the volume. The values are nil.
	ReadAllocs  map[string]*Allocation
	WriteAllocs map[string]*Allocation
	Allocations []*AllocationListStub // both readers and writers
	// Releases are the claims of ended allocations that are not released yet. Servers of Nomad 2.0 do not send them.
	Releases []*CSIVolumeRelease `json:",omitempty"`

	Schedulable         bool
	PluginID            string
	Provider            string
	ProviderVersion     string
	ControllerRequired  bool
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	ResourceExhausted   time.Time
	CreateIndex         uint64
	ModifyIndex         uint64
	CreateTime          int64
	ModifyTime          int64
}

// CSIVolumeRelease is the claim of an ended allocation on a volume that is being released.
type CSIVolumeRelease struct {
	AllocID string
	NodeID  string
	State   string    // unpublishing, node-detached or controller-detached
	Since   time.Time // when the claim reached its state
	Waits   string    // what the next step waits for
	Command string    // the command that ends the wait, "" if none is needed
}

// CSIVolumeListStub is the short form of a CSI volume in lists.
type CSIVolumeListStub struct {
	ID                  string
	Namespace           string
	Name                string
	ExternalID          string
	Topologies          []*CSITopology
	AccessMode          CSIVolumeAccessMode
	AttachmentMode      CSIVolumeAttachmentMode
	CurrentReaders      int
	CurrentWriters      int
	Schedulable         bool
	PluginID            string
	Provider            string
	ControllerRequired  bool
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	ResourceExhausted   time.Time
	CreateIndex         uint64
	ModifyIndex         uint64
	CreateTime          int64
	ModifyTime          int64
}

// CSIVolumeExternalStub is a volume as its storage system lists it. The IDs are those of the storage system.
type CSIVolumeExternalStub struct {
	ExternalID               string
	CapacityBytes            int64
	VolumeContext            map[string]string
	CloneID                  string
	SnapshotID               string
	PublishedExternalNodeIDs []string
	IsAbnormal               bool
	Status                   string
}

// CSIVolumeListExternalResponse is a page of the volumes of a storage system.
type CSIVolumeListExternalResponse struct {
	Volumes   []*CSIVolumeExternalStub
	NextToken string
}

// CSIVolumeRegisterRequest registers volumes that exist in their storage system.
type CSIVolumeRegisterRequest struct {
	Volumes        []*CSIVolume
	PolicyOverride bool
	WriteRequest
}

// CSIVolumeRegisterResponse is the reply to CSIVolumeRegisterRequest.
type CSIVolumeRegisterResponse struct {
	Volumes  []*CSIVolume
	Warnings string
	QueryMeta
}

// CSIVolumeCreateRequest creates volumes in their storage system and registers them.
type CSIVolumeCreateRequest struct {
	Volumes        []*CSIVolume
	PolicyOverride bool
	WriteRequest
}

// CSIVolumeCreateResponse is the reply to CSIVolumeCreateRequest.
type CSIVolumeCreateResponse struct {
	Volumes  []*CSIVolume
	Warnings string
	QueryMeta
}

// CSIVolumeDeregisterRequest selects the volumes to deregister.
type CSIVolumeDeregisterRequest struct {
	VolumeIDs []string
	WriteRequest
}

// CSIVolumeDeleteRequest selects the volume to delete from its storage system. ExternalVolumeID is the ID of the
// volume in the cluster: the name is that of the official SDK.
type CSIVolumeDeleteRequest struct {
	ExternalVolumeID string
	Secrets          CSISecrets // added to those that are stored with the volume
	WriteRequest
}
