package api

import (
	"maps"
	"net/http"
	"net/url"
)

// HostVolume is a dynamic host volume. Constraints are those for the choice of its node.
type HostVolume struct {
	Namespace                 string
	ID                        string
	Name                      string
	PluginID                  string
	NodePool                  string
	NodeID                    string
	Constraints               []*Constraint `json:",omitempty"`
	RequestedCapacityMinBytes int64
	RequestedCapacityMaxBytes int64
	CapacityBytes             int64
	RequestedCapabilities     []*HostVolumeCapability
	Parameters                map[string]string `json:",omitempty"`
	HostPath                  string
	State                     HostVolumeState
	CreateIndex               uint64
	CreateTime                int64
	ModifyIndex               uint64
	ModifyTime                int64
	Allocations               []*AllocationListStub `json:",omitempty"`
}

// HostVolumeState is the state of a volume.
type HostVolumeState string

// States of a volume.
const (
	HostVolumeStatePending     HostVolumeState = "pending"
	HostVolumeStateReady       HostVolumeState = "ready"
	HostVolumeStateUnavailable HostVolumeState = "unavailable"
)

// HostVolumeAttachmentMode is how a volume is attached.
type HostVolumeAttachmentMode string

// Attachment modes of a volume.
const (
	HostVolumeAttachmentModeUnknown     HostVolumeAttachmentMode = ""
	HostVolumeAttachmentModeBlockDevice HostVolumeAttachmentMode = "block-device"
	HostVolumeAttachmentModeFilesystem  HostVolumeAttachmentMode = "file-system"
)

// HostVolumeAccessMode is who may use a volume at once.
type HostVolumeAccessMode string

// Access modes of a volume.
const (
	HostVolumeAccessModeUnknown                HostVolumeAccessMode = ""
	HostVolumeAccessModeSingleNodeReader       HostVolumeAccessMode = "single-node-reader-only"
	HostVolumeAccessModeSingleNodeWriter       HostVolumeAccessMode = "single-node-writer"
	HostVolumeAccessModeSingleNodeSingleWriter HostVolumeAccessMode = "single-node-single-writer"
	HostVolumeAccessModeSingleNodeMultiWriter  HostVolumeAccessMode = "single-node-multi-writer"
)

// HostVolumeCapability is a combination of modes in which a volume may be used.
type HostVolumeCapability struct {
	AttachmentMode HostVolumeAttachmentMode
	AccessMode     HostVolumeAccessMode
}

// HostVolumeStub is the short form of a volume in lists.
type HostVolumeStub struct {
	Namespace     string
	ID            string
	Name          string
	PluginID      string
	NodePool      string
	NodeID        string
	CapacityBytes int64
	State         HostVolumeState
	CreateIndex   uint64
	CreateTime    int64
	ModifyIndex   uint64
	ModifyTime    int64
}

// HostVolumeCreateRequest creates a volume, or updates it if Volume.ID is set.
type HostVolumeCreateRequest struct {
	Volume         *HostVolume
	PolicyOverride bool
}

// HostVolumeCreateResponse is the reply to HostVolumeCreateRequest.
type HostVolumeCreateResponse struct {
	Volume   *HostVolume
	Warnings string
}

// HostVolumeRegisterRequest makes a path of a node a volume.
type HostVolumeRegisterRequest struct {
	Volume         *HostVolume
	PolicyOverride bool
}

// HostVolumeRegisterResponse is the reply to HostVolumeRegisterRequest.
type HostVolumeRegisterResponse struct {
	Volume   *HostVolume
	Warnings string
}

// HostVolumeDeleteRequest selects the volume to delete.
type HostVolumeDeleteRequest struct {
	ID    string
	Force bool
}

// HostVolumeDeleteResponse is the reply to HostVolumeDeleteRequest.
type HostVolumeDeleteResponse struct{}

// HostVolumeListRequest selects volumes. Empty fields select all.
type HostVolumeListRequest struct {
	NodeID   string
	NodePool string
}

// TaskGroupHostVolumeClaim binds a group with a sticky volume request to one volume.
type TaskGroupHostVolumeClaim struct {
	ID            string
	Namespace     string
	JobID         string
	TaskGroupName string
	AllocID       string
	VolumeID      string
	VolumeName    string
	CreateIndex   uint64
	ModifyIndex   uint64
}

// TaskGroupHostVolumeClaimsListRequest selects claims. Empty fields select all.
type TaskGroupHostVolumeClaimsListRequest struct {
	JobID      string
	TaskGroup  string
	VolumeName string
}

// HostVolumes is the handle for dynamic host volumes.
type HostVolumes struct{ client *Client }

// HostVolumes returns the handle for dynamic host volumes.
func (c *Client) HostVolumes() *HostVolumes { return &HostVolumes{c} }

// Create creates or updates a volume.
func (h *HostVolumes) Create(req *HostVolumeCreateRequest, w *WriteOptions) (*HostVolumeCreateResponse, *WriteMeta, error) {
	out := new(HostVolumeCreateResponse)
	meta, err := h.client.put("/v1/volume/host/create", req, out, w)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}

// Register makes a path of a node a volume.
func (h *HostVolumes) Register(req *HostVolumeRegisterRequest, w *WriteOptions) (*HostVolumeRegisterResponse, *WriteMeta, error) {
	out := new(HostVolumeRegisterResponse)
	meta, err := h.client.put("/v1/volume/host/register", req, out, w)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}

// Get returns a volume with the allocations that use it.
func (h *HostVolumes) Get(id string, q *QueryOptions) (*HostVolume, *QueryMeta, error) {
	if id == "" {
		return nil, nil, missing("volume ID")
	}
	return get[*HostVolume](h.client, "/v1/volume/host/"+url.PathEscape(id), q)
}

// List lists volumes. The prefix of the options matches IDs and names.
func (h *HostVolumes) List(req *HostVolumeListRequest, q *QueryOptions) ([]*HostVolumeStub, *QueryMeta, error) {
	return get[[]*HostVolumeStub](h.client, "/v1/volumes",
		q.with(map[string]string{"type": "host", "node_id": req.NodeID, "node_pool": req.NodePool}))
}

// Delete deletes a volume. With Force it is deleted although its node is not available.
func (h *HostVolumes) Delete(req *HostVolumeDeleteRequest, w *WriteOptions) (*HostVolumeDeleteResponse, *WriteMeta, error) {
	if req.ID == "" {
		return nil, nil, missing("volume ID")
	}
	path := "/v1/volume/host/" + url.PathEscape(req.ID)
	if req.Force {
		path += "?force=true"
	}
	meta, err := h.client.write(call{http.MethodDelete, path, nil, nil}, w)
	return &HostVolumeDeleteResponse{}, meta, err
}

// TaskGroupHostVolumeClaims is the handle for the claims of groups on volumes.
type TaskGroupHostVolumeClaims struct{ client *Client }

// TaskGroupHostVolumeClaims returns the handle for the claims of groups on volumes.
func (c *Client) TaskGroupHostVolumeClaims() *TaskGroupHostVolumeClaims {
	return &TaskGroupHostVolumeClaims{c}
}

// List lists claims.
func (h *TaskGroupHostVolumeClaims) List(req *TaskGroupHostVolumeClaimsListRequest, q *QueryOptions) (
	[]*TaskGroupHostVolumeClaim, *QueryMeta, error) {
	return get[[]*TaskGroupHostVolumeClaim](h.client, "/v1/volumes/claims",
		q.with(map[string]string{"job_id": req.JobID, "task_group": req.TaskGroup, "volume_name": req.VolumeName}))
}

// Delete deletes a claim, so that its group can be placed on another volume.
func (h *TaskGroupHostVolumeClaims) Delete(id string, w *WriteOptions) (*WriteMeta, error) {
	if id == "" {
		return nil, missing("claim ID")
	}
	return h.client.write(call{http.MethodDelete, "/v1/volumes/claim/" + url.PathEscape(id), nil, nil}, w)
}

// with returns a copy of the options with more parameters. Empty ones are left out.
func (o *QueryOptions) with(params map[string]string) *QueryOptions {
	out := QueryOptions{}
	if o != nil {
		out = *o
	}
	out.Params = maps.Clone(out.Params)
	if out.Params == nil {
		out.Params = map[string]string{}
	}
	for name, value := range params {
		if value != "" {
			out.Params[name] = value
		}
	}
	return &out
}
