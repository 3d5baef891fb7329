package message

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// A method CSI.X of a node has the method ClientCSI.X of the servers, which relays it to the node. Both have the same request.

// CSIControllerQuery is embedded in the requests to a controller plugin. It names the plugin and the node with the instance.
type CSIControllerQuery struct {
	ControllerNodeID string
	PluginID         string
}

// Controller returns the plugin and the node of the request, so that generic code can set them.
func (q *CSIControllerQuery) Controller() *CSIControllerQuery { return q }

// CSIVolumeMountOptions are the file system and mount flags of an attached volume.
type CSIVolumeMountOptions struct {
	Filesystem string
	MountFlags []string
}

// ClientCSIControllerAttachVolumeRequest is the request of ClientCSI.ControllerAttachVolume.
type ClientCSIControllerAttachVolumeRequest struct {
	VolumeID        string // the external ID
	ClientCSINodeID string
	AttachmentMode  nomad.VolumeAttachmentMode
	AccessMode      nomad.VolumeAccessMode
	MountOptions    *CSIVolumeMountOptions
	ReadOnly        bool
	Secrets         csi.Secrets
	VolumeContext   map[string]string
	CSIControllerQuery
	NodeCall
}

// ClientCSIControllerAttachVolumeResponse is the reply of ClientCSI.ControllerAttachVolume.
type ClientCSIControllerAttachVolumeResponse struct {
	PublishContext map[string]string
}

// ClientCSIControllerDetachVolumeRequest is the request of ClientCSI.ControllerDetachVolume.
type ClientCSIControllerDetachVolumeRequest struct {
	VolumeID        string // the external ID
	ClientCSINodeID string
	Secrets         csi.Secrets
	CSIControllerQuery
	NodeCall
}

// ClientCSIControllerDetachVolumeResponse is the reply of ClientCSI.ControllerDetachVolume.
type ClientCSIControllerDetachVolumeResponse struct{}

// ClientCSIControllerValidateVolumeRequest is the request of ClientCSI.ControllerValidateVolume.
type ClientCSIControllerValidateVolumeRequest struct {
	VolumeID           string // the external ID
	VolumeCapabilities []*csi.Capability
	MountOptions       *nomad.CSIMountOptions
	Secrets            csi.Secrets
	AttachmentMode     nomad.VolumeAttachmentMode // of older servers
	AccessMode         nomad.VolumeAccessMode     // of older servers
	Parameters         map[string]string
	Context            map[string]string
	CSIControllerQuery
	NodeCall
}

// ClientCSIControllerValidateVolumeResponse is the reply of ClientCSI.ControllerValidateVolume.
type ClientCSIControllerValidateVolumeResponse struct{}

// ClientCSIControllerCreateVolumeRequest is the request of ClientCSI.ControllerCreateVolume.
type ClientCSIControllerCreateVolumeRequest struct {
	Name                string
	VolumeCapabilities  []*csi.Capability
	MountOptions        *nomad.CSIMountOptions
	Parameters          map[string]string
	Secrets             csi.Secrets
	CapacityMin         int64
	CapacityMax         int64
	SnapshotID          string
	CloneID             string
	RequestedTopologies *csi.TopologyRequest
	CSIControllerQuery
	NodeCall
}

// ClientCSIControllerCreateVolumeResponse is the reply of ClientCSI.ControllerCreateVolume.
type ClientCSIControllerCreateVolumeResponse struct {
	ExternalVolumeID string
	CapacityBytes    int64
	VolumeContext    map[string]string
	Topologies       []*nomad.CSITopology
}

// ClientCSIControllerExpandVolumeRequest is the request of ClientCSI.ControllerExpandVolume.
type ClientCSIControllerExpandVolumeRequest struct {
	ExternalVolumeID string
	CapacityRange    *csi.CapacityRange
	Secrets          csi.Secrets
	// VolumeCapability is in the form of the CSI specification in Nomad 2.0. It is not sent.
	CSIControllerQuery
	NodeCall
}

// ClientCSIControllerExpandVolumeResponse is the reply of ClientCSI.ControllerExpandVolume.
type ClientCSIControllerExpandVolumeResponse struct {
	CapacityBytes         int64
	NodeExpansionRequired bool
}

// ClientCSIControllerDeleteVolumeRequest is the request of ClientCSI.ControllerDeleteVolume.
type ClientCSIControllerDeleteVolumeRequest struct {
	ExternalVolumeID string
	Secrets          csi.Secrets
	CSIControllerQuery
	NodeCall
}

// ClientCSIControllerDeleteVolumeResponse is the reply of ClientCSI.ControllerDeleteVolume.
type ClientCSIControllerDeleteVolumeResponse struct{}

// ClientCSIControllerListVolumesRequest is the request of ClientCSI.ControllerListVolumes.
type ClientCSIControllerListVolumesRequest struct {
	MaxEntries    int32
	StartingToken string
	CSIControllerQuery
	NodeCall
}

// ClientCSIControllerListVolumesResponse is the reply of ClientCSI.ControllerListVolumes.
type ClientCSIControllerListVolumesResponse struct {
	Entries   []*csi.ExternalStub
	NextToken string
}

// ClientCSIControllerCreateSnapshotRequest is the request of ClientCSI.ControllerCreateSnapshot.
type ClientCSIControllerCreateSnapshotRequest struct {
	ExternalSourceVolumeID string
	Name                   string
	Secrets                csi.Secrets
	Parameters             map[string]string
	CSIControllerQuery
	NodeCall
}

// ClientCSIControllerCreateSnapshotResponse is the reply of ClientCSI.ControllerCreateSnapshot.
type ClientCSIControllerCreateSnapshotResponse struct {
	ID                     string
	ExternalSourceVolumeID string
	SizeBytes              int64
	CreateTime             int64
	IsReady                bool
}

// ClientCSIControllerDeleteSnapshotRequest is the request of ClientCSI.ControllerDeleteSnapshot.
type ClientCSIControllerDeleteSnapshotRequest struct {
	ID      string
	Secrets csi.Secrets
	CSIControllerQuery
	NodeCall
}

// ClientCSIControllerDeleteSnapshotResponse is the reply of ClientCSI.ControllerDeleteSnapshot.
type ClientCSIControllerDeleteSnapshotResponse struct{}

// ClientCSIControllerListSnapshotsRequest is the request of ClientCSI.ControllerListSnapshots.
type ClientCSIControllerListSnapshotsRequest struct {
	MaxEntries    int32
	StartingToken string
	Secrets       csi.Secrets
	CSIControllerQuery
	NodeCall
}

// ClientCSIControllerListSnapshotsResponse is the reply of ClientCSI.ControllerListSnapshots.
type ClientCSIControllerListSnapshotsResponse struct {
	Entries   []*csi.Snapshot
	NextToken string
}

// ClientCSINodeDetachVolumeRequest is the request of ClientCSI.NodeDetachVolume: the node unmounts the volume of an allocation.
type ClientCSINodeDetachVolumeRequest struct {
	PluginID        string
	VolumeID        string
	VolumeNamespace string
	AllocID         string
	NodeID          string
	ExternalID      string
	AttachmentMode  nomad.VolumeAttachmentMode
	AccessMode      nomad.VolumeAccessMode
	ReadOnly        bool
	NodeCall
}

// ClientCSINodeDetachVolumeResponse is the reply of ClientCSI.NodeDetachVolume.
type ClientCSINodeDetachVolumeResponse struct{}

// ClientCSINodeExpandVolumeRequest is the request of ClientCSI.NodeExpandVolume.
type ClientCSINodeExpandVolumeRequest struct {
	PluginID        string
	VolumeID        string
	VolumeNamespace string
	ExternalID      string
	Capacity        *csi.CapacityRange
	Claim           *csi.Claim
	NodeCall
}

// ClientCSINodeExpandVolumeResponse is the reply of ClientCSI.NodeExpandVolume.
type ClientCSINodeExpandVolumeResponse struct {
	CapacityBytes int64
}
