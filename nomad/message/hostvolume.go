package message

import "github.com/open-nomad/open-nomad/nomad/hostvolume"

// HostVolumeCreateRequest is the request of HostVolume.Create.
type HostVolumeCreateRequest struct {
	Volume         *hostvolume.Volume
	PolicyOverride bool
	WriteRequest
}

// HostVolumeCreateResponse is the reply of HostVolume.Create.
type HostVolumeCreateResponse struct {
	Volume   *hostvolume.Volume
	Warnings string
	WriteMeta
}

// HostVolumeRegisterRequest is the request of HostVolume.Register, and the log entry of both Create and Register.
type HostVolumeRegisterRequest struct {
	Volume         *hostvolume.Volume
	PolicyOverride bool
	WriteRequest
}

// HostVolumeRegisterResponse is the reply of HostVolume.Register.
type HostVolumeRegisterResponse struct {
	Volume   *hostvolume.Volume
	Warnings string
	WriteMeta
}

// HostVolumeDeleteRequest is the request of HostVolume.Delete and its log entry.
type HostVolumeDeleteRequest struct {
	VolumeID string
	Force    bool
	WriteRequest
}

// HostVolumeDeleteResponse is the reply of HostVolume.Delete.
type HostVolumeDeleteResponse struct {
	WriteMeta
}

// HostVolumeGetRequest is the request of HostVolume.Get.
type HostVolumeGetRequest struct {
	ID string
	QueryOptions
}

// HostVolumeGetResponse is the reply of HostVolume.Get.
type HostVolumeGetResponse struct {
	Volume *hostvolume.Volume
	QueryMeta
}

// HostVolumeListRequest is the request of HostVolume.List.
type HostVolumeListRequest struct {
	NodeID   string
	NodePool string
	QueryOptions
}

// HostVolumeListResponse is the reply of HostVolume.List.
type HostVolumeListResponse struct {
	Volumes []*hostvolume.Stub
	QueryMeta
}

// TaskGroupVolumeClaimListRequest is the request of TaskGroupHostVolumeClaim.List.
type TaskGroupVolumeClaimListRequest struct {
	TaskGroup  string
	JobID      string
	VolumeName string
	QueryOptions
}

// TaskGroupVolumeClaimListResponse is the reply of TaskGroupHostVolumeClaim.List.
type TaskGroupVolumeClaimListResponse struct {
	Claims []*hostvolume.Claim
	QueryMeta
}

// TaskGroupVolumeClaimDeleteRequest is the request of TaskGroupHostVolumeClaim.Delete and its log entry.
type TaskGroupVolumeClaimDeleteRequest struct {
	ClaimID string
	WriteRequest
}

// TaskGroupVolumeClaimDeleteResponse is the reply of TaskGroupHostVolumeClaim.Delete.
type TaskGroupVolumeClaimDeleteResponse struct {
	WriteMeta
}

// ClientHostVolumeCreateRequest is the request of ClientHostVolume.Create, and of HostVolume.Create at the node. Requests
// of Nomad 2.0 have no NodeCall, which its receivers ignore.
type ClientHostVolumeCreateRequest struct {
	ID                        string
	Name                      string
	PluginID                  string
	Namespace                 string
	NodeID                    string
	RequestedCapacityMinBytes int64
	RequestedCapacityMaxBytes int64
	Parameters                map[string]string
	// Update is set if the servers have the volume, so that a failure of its plugin must not delete it.
	Update bool `codec:",omitempty"`
	NodeCall
}

// ClientHostVolumeCreateResponse is the reply of ClientHostVolume.Create.
type ClientHostVolumeCreateResponse struct {
	VolumeName    string
	VolumeID      string
	HostPath      string
	CapacityBytes int64
}

// ClientHostVolumeRegisterRequest is the request of ClientHostVolume.Register, and of HostVolume.Register at the node.
type ClientHostVolumeRegisterRequest struct {
	ID            string
	Name          string
	NodeID        string
	HostPath      string
	CapacityBytes int64
	Parameters    map[string]string
	NodeCall
}

// ClientHostVolumeRegisterResponse is the reply of ClientHostVolume.Register.
type ClientHostVolumeRegisterResponse struct{}

// ClientHostVolumeDeleteRequest is the request of ClientHostVolume.Delete, and of HostVolume.Delete at the node.
type ClientHostVolumeDeleteRequest struct {
	ID         string
	Name       string
	PluginID   string
	Namespace  string
	NodeID     string
	HostPath   string
	Parameters map[string]string
	NodeCall
}

// ClientHostVolumeDeleteResponse is the reply of ClientHostVolume.Delete.
type ClientHostVolumeDeleteResponse struct {
	VolumeName string
	VolumeID   string
}

// ClientHostVolumeState is the form in which a node stores a volume. HostPath is set for a registered volume only.
type ClientHostVolumeState struct {
	ID       string
	HostPath string
	// RealPath is HostPath without links, when it was registered.
	RealPath  string `codec:",omitempty"`
	CreateReq *ClientHostVolumeCreateRequest
	// Unfinished is set until the plugin has created the volume.
	Unfinished bool `codec:",omitempty"`
}

// NodeCall contains the options of a call between servers that concerns a node, and to the node. It has no namespace,
// because some of the requests have one of their own.
type NodeCall struct {
	Region    string `codec:",omitempty"`
	AuthToken string `codec:",omitempty"`
	InternalRpcInfo
}

// Envelope returns the fields that the transport reads from the request.
func (c *NodeCall) Envelope() Envelope {
	return Envelope{Region: c.Region, AuthToken: c.AuthToken, Forwarded: c.Forwarded, Write: true}
}

// Caller returns the options of the request, so that generic code can set them.
func (c *NodeCall) Caller() *NodeCall { return c }
