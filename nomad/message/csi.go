package message

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// CSIPluginListRequest is the request of CSIPlugin.List.
type CSIPluginListRequest struct {
	QueryOptions
}

// CSIPluginListResponse is the reply of CSIPlugin.List.
type CSIPluginListResponse struct {
	Plugins []*csi.PluginStub
	QueryMeta
}

// CSIPluginGetRequest is the request of CSIPlugin.Get.
type CSIPluginGetRequest struct {
	ID string
	QueryOptions
}

// CSIPluginGetResponse is the reply of CSIPlugin.Get.
type CSIPluginGetResponse struct {
	Plugin *csi.Plugin
	QueryMeta
}

// CSIPluginDeleteRequest is the request of CSIPlugin.Delete, and its log entry.
type CSIPluginDeleteRequest struct {
	ID string
	QueryOptions
}

// CSIPluginDeleteResponse is the reply of CSIPlugin.Delete.
type CSIPluginDeleteResponse struct {
	QueryMeta
}

// CSIVolumeListRequest is the request of CSIVolume.List.
type CSIVolumeListRequest struct {
	PluginID string
	NodeID   string
	QueryOptions
}

// CSIVolumeListResponse is the reply of CSIVolume.List.
type CSIVolumeListResponse struct {
	Volumes []*csi.Stub
	QueryMeta
}

// CSIVolumeGetRequest is the request of CSIVolume.Get.
type CSIVolumeGetRequest struct {
	ID string
	QueryOptions
}

// CSIVolumeGetResponse is the reply of CSIVolume.Get.
type CSIVolumeGetResponse struct {
	Volume *csi.Volume
	QueryMeta
}

// CSIVolumeRegisterRequest is the request of CSIVolume.Register, and the log entry of Register and Create.
type CSIVolumeRegisterRequest struct {
	Volumes        []*csi.Volume
	Timestamp      int64 // ns since 1970
	PolicyOverride bool
	WriteRequest
}

// CSIVolumeRegisterResponse is the reply of CSIVolume.Register.
type CSIVolumeRegisterResponse struct {
	Volumes  []*csi.Volume
	Warnings string
	QueryMeta
}

// CSIVolumeCreateRequest is the request of CSIVolume.Create.
type CSIVolumeCreateRequest struct {
	Volumes        []*csi.Volume
	Timestamp      int64
	PolicyOverride bool
	WriteRequest
}

// CSIVolumeCreateResponse is the reply of CSIVolume.Create.
type CSIVolumeCreateResponse struct {
	Volumes  []*csi.Volume
	Warnings string
	QueryMeta
}

// CSIVolumeDeregisterRequest is the request of CSIVolume.Deregister, and its log entry.
type CSIVolumeDeregisterRequest struct {
	VolumeIDs []string
	Force     bool
	WriteRequest
}

// CSIVolumeDeregisterResponse is the reply of CSIVolume.Deregister.
type CSIVolumeDeregisterResponse struct {
	QueryMeta
}

// CSIVolumeDeleteRequest is the request of CSIVolume.Delete.
type CSIVolumeDeleteRequest struct {
	VolumeIDs []string
	Secrets   csi.Secrets
	WriteRequest
}

// CSIVolumeDeleteResponse is the reply of CSIVolume.Delete.
type CSIVolumeDeleteResponse struct {
	QueryMeta
}

// CSIVolumeClaimRequest is the request of CSIVolume.Claim, and the log entry of a claim and of its next state.
type CSIVolumeClaimRequest struct {
	VolumeID       string
	AllocationID   string
	NodeID         string
	ExternalNodeID string
	Claim          csi.ClaimMode
	AccessMode     nomad.VolumeAccessMode
	AttachmentMode nomad.VolumeAttachmentMode
	State          csi.ClaimState
	Timestamp      int64  // ns since 1970
	Waits          string `codec:",omitempty"` // see csi.Claim; not in Nomad 2.0
	WriteRequest
}

// CSIVolumeClaimBatchRequest is the log entry of several claims.
type CSIVolumeClaimBatchRequest struct {
	Claims []CSIVolumeClaimRequest
}

// CSIVolumeClaimResponse is the reply of CSIVolume.Claim. The volume has its secrets.
type CSIVolumeClaimResponse struct {
	PublishContext map[string]string
	Volume         *csi.Volume
	QueryMeta
}

// CSIVolumeUnpublishRequest is the request of CSIVolume.Unpublish. A claim without an allocation stands for all ended claims
// of its node.
type CSIVolumeUnpublishRequest struct {
	VolumeID string
	Claim    *csi.Claim
	WriteRequest
}

// CSIVolumeUnpublishResponse is the reply of CSIVolume.Unpublish.
type CSIVolumeUnpublishResponse struct {
	QueryMeta
}

// CSIVolumeExternalListRequest is the request of CSIVolume.ListExternal.
type CSIVolumeExternalListRequest struct {
	PluginID string
	QueryOptions
}

// CSIVolumeExternalListResponse is the reply of CSIVolume.ListExternal.
type CSIVolumeExternalListResponse struct {
	Volumes   []*csi.ExternalStub
	NextToken string
	QueryMeta
}

// CSISnapshotCreateRequest is the request of CSIVolume.CreateSnapshot.
type CSISnapshotCreateRequest struct {
	Snapshots []*csi.Snapshot
	WriteRequest
}

// CSISnapshotCreateResponse is the reply of CSIVolume.CreateSnapshot.
type CSISnapshotCreateResponse struct {
	Snapshots []*csi.Snapshot
	QueryMeta
}

// CSISnapshotDeleteRequest is the request of CSIVolume.DeleteSnapshot.
type CSISnapshotDeleteRequest struct {
	Snapshots []*csi.Snapshot
	WriteRequest
}

// CSISnapshotDeleteResponse is the reply of CSIVolume.DeleteSnapshot.
type CSISnapshotDeleteResponse struct {
	QueryMeta
}

// CSISnapshotListRequest is the request of CSIVolume.ListSnapshots.
type CSISnapshotListRequest struct {
	PluginID string
	Secrets  csi.Secrets
	QueryOptions
}

// CSISnapshotListResponse is the reply of CSIVolume.ListSnapshots.
type CSISnapshotListResponse struct {
	Snapshots []*csi.Snapshot
	NextToken string
	QueryMeta
}

// CSIVolumeResealRequest is the request of CSIVolume.Reseal, which encrypts the secrets of a volume with the active root key. It
// is not in Nomad 2.0.
type CSIVolumeResealRequest struct {
	VolumeID string
	WriteRequest
}
