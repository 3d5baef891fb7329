package httpclient

import (
	"maps"
	"net/http"
	"net/url"

	"github.com/open-nomad/open-nomad/api"
)

// HostVolumes is the handle for dynamic host volumes.
type HostVolumes struct{ client *Client }

// HostVolumes returns the handle for dynamic host volumes.
func (c *Client) HostVolumes() *HostVolumes { return &HostVolumes{c} }

// Create creates or updates a volume.
func (h *HostVolumes) Create(req *api.HostVolumeCreateRequest, w *WriteOptions) (*api.HostVolumeCreateResponse, *api.WriteMeta, error) {
	out := new(api.HostVolumeCreateResponse)
	meta, err := h.client.put("/v1/volume/host/create", req, out, w)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}

// Register makes a path of a node a volume.
func (h *HostVolumes) Register(req *api.HostVolumeRegisterRequest, w *WriteOptions) (*api.HostVolumeRegisterResponse, *api.WriteMeta, error) {
	out := new(api.HostVolumeRegisterResponse)
	meta, err := h.client.put("/v1/volume/host/register", req, out, w)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}

// Get returns a volume with the allocations that use it.
func (h *HostVolumes) Get(id string, q *QueryOptions) (*api.HostVolume, *api.QueryMeta, error) {
	if id == "" {
		return nil, nil, missing("volume ID")
	}
	return get[*api.HostVolume](h.client, "/v1/volume/host/"+url.PathEscape(id), q)
}

// List lists volumes. The prefix of the options matches IDs and names.
func (h *HostVolumes) List(req *api.HostVolumeListRequest, q *QueryOptions) ([]*api.HostVolumeStub, *api.QueryMeta, error) {
	return get[[]*api.HostVolumeStub](h.client, "/v1/volumes", q.with(map[string]string{"type": "host", "node_id": req.NodeID, "node_pool": req.NodePool}))
}

// Delete deletes a volume. With force it is deleted although its node is not available.
func (h *HostVolumes) Delete(id string, force bool, w *WriteOptions) (*api.WriteMeta, error) {
	if id == "" {
		return nil, missing("volume ID")
	}
	path := "/v1/volume/host/" + url.PathEscape(id)
	if force {
		path += "?force=true"
	}
	return h.client.write(http.MethodDelete, path, nil, nil, w)
}

// Claims lists the claims of groups on volumes.
func (h *HostVolumes) Claims(req *api.TaskGroupHostVolumeClaimsListRequest, q *QueryOptions) ([]*api.TaskGroupHostVolumeClaim, *api.QueryMeta, error) {
	return get[[]*api.TaskGroupHostVolumeClaim](h.client, "/v1/volumes/claims",
		q.with(map[string]string{"job_id": req.JobID, "task_group": req.TaskGroup, "volume_name": req.VolumeName}))
}

// DeleteClaim deletes a claim, so that its group can be placed on another volume.
func (h *HostVolumes) DeleteClaim(id string, w *WriteOptions) (*api.WriteMeta, error) {
	if id == "" {
		return nil, missing("claim ID")
	}
	return h.client.write(http.MethodDelete, "/v1/volumes/claim/"+url.PathEscape(id), nil, nil, w)
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
