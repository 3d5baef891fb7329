package api

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// CSIVolumes is the handle for CSI volumes and their snapshots.
type CSIVolumes struct{ client *Client }

// CSIVolumes returns the handle for CSI volumes and their snapshots.
func (c *Client) CSIVolumes() *CSIVolumes { return &CSIVolumes{c} }

// csiVolumePath returns the path of a volume.
func csiVolumePath(id string) string { return "/v1/volume/csi/" + url.PathEscape(id) }

// List lists the volumes, the newest first. The prefix of the options matches IDs.
func (v *CSIVolumes) List(q *QueryOptions) ([]*CSIVolumeListStub, *QueryMeta, error) {
	out, meta, err := get[[]*CSIVolumeListStub](v.client, "/v1/volumes", q.with(map[string]string{"type": "csi"}))
	slices.SortStableFunc(out, func(a, b *CSIVolumeListStub) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	return out, meta, err
}

// PluginList lists the volumes of a plugin.
func (v *CSIVolumes) PluginList(pluginID string) ([]*CSIVolumeListStub, *QueryMeta, error) {
	return v.List((&QueryOptions{}).with(map[string]string{"plugin_id": pluginID}))
}

// ListExternal lists the volumes of the storage system of a plugin, also those that are not registered. The plugin
// makes the pages: use PerPage and NextToken of the options.
func (v *CSIVolumes) ListExternal(pluginID string, q *QueryOptions) (*CSIVolumeListExternalResponse, *QueryMeta, error) {
	out, meta, err := get[*CSIVolumeListExternalResponse](v.client, "/v1/volumes/external", q.with(map[string]string{"plugin_id": pluginID}))
	if err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(out.Volumes, func(a, b *CSIVolumeExternalStub) int { return cmp.Compare(b.ExternalID, a.ExternalID) })
	return out, meta, nil
}

// Info returns a volume with the allocations that use it.
func (v *CSIVolumes) Info(id string, q *QueryOptions) (*CSIVolume, *QueryMeta, error) {
	if id == "" {
		return nil, nil, missing("volume ID")
	}
	return get[*CSIVolume](v.client, csiVolumePath(id), q)
}

// Register registers a volume that exists in its storage system, or updates a registered one.
func (v *CSIVolumes) Register(vol *CSIVolume, w *WriteOptions) (*WriteMeta, error) {
	_, meta, err := v.RegisterOpts(&CSIVolumeRegisterRequest{Volumes: []*CSIVolume{vol}}, w)
	return meta, err
}

// RegisterOpts is Register with options. The request has one volume.
func (v *CSIVolumes) RegisterOpts(req *CSIVolumeRegisterRequest, w *WriteOptions) (*CSIVolumeRegisterResponse, *WriteMeta, error) {
	id, err := onlyCSIVolume(req.Volumes)
	if err != nil {
		return nil, nil, err
	}
	out := new(CSIVolumeRegisterResponse)
	meta, err := v.client.put(csiVolumePath(id), req, out, w)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}

// Create creates a volume in its storage system and registers it.
func (v *CSIVolumes) Create(vol *CSIVolume, w *WriteOptions) ([]*CSIVolume, *WriteMeta, error) {
	out, meta, err := v.CreateOpts(&CSIVolumeCreateRequest{Volumes: []*CSIVolume{vol}}, w)
	if err != nil {
		return nil, nil, err
	}
	return out.Volumes, meta, nil
}

// CreateOpts is Create with options. The request has one volume.
func (v *CSIVolumes) CreateOpts(req *CSIVolumeCreateRequest, w *WriteOptions) (*CSIVolumeCreateResponse, *WriteMeta, error) {
	id, err := onlyCSIVolume(req.Volumes)
	if err != nil {
		return nil, nil, err
	}
	out := new(CSIVolumeCreateResponse)
	meta, err := v.client.put(csiVolumePath(id)+"/create", req, out, w)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}

// onlyCSIVolume returns the ID of the only volume of a request.
func onlyCSIVolume(volumes []*CSIVolume) (string, error) {
	if len(volumes) != 1 || volumes[0] == nil {
		return "", fmt.Errorf("the request has %d volumes: it must have exactly one", len(volumes))
	}
	if volumes[0].ID == "" {
		return "", missing("volume ID")
	}
	return volumes[0].ID, nil
}

// Deregister deregisters a volume. Its data remains in the storage system. With force, the claims of ended
// allocations are dropped.
func (v *CSIVolumes) Deregister(id string, force bool, w *WriteOptions) error {
	return v.remove(id, "?force="+strconv.FormatBool(force), w)
}

// Delete deletes a volume from its storage system and deregisters it.
func (v *CSIVolumes) Delete(id string, w *WriteOptions) error {
	return v.DeleteOpts(&CSIVolumeDeleteRequest{ExternalVolumeID: id}, w)
}

// DeleteOpts is Delete with secrets.
func (v *CSIVolumes) DeleteOpts(req *CSIVolumeDeleteRequest, w *WriteOptions) error {
	w, err := w.withCSISecrets(req.Secrets)
	if err != nil {
		return err
	}
	return v.remove(req.ExternalVolumeID, "/delete", w)
}

// Detach releases the claims of ended allocations of a node on a volume. Running allocations keep theirs.
func (v *CSIVolumes) Detach(volID, nodeID string, w *WriteOptions) error {
	return v.remove(volID, "/detach?node="+url.QueryEscape(nodeID), w)
}

// remove sends DELETE with a suffix of the path of a volume.
func (v *CSIVolumes) remove(id, suffix string, w *WriteOptions) error {
	if id == "" {
		return missing("volume ID")
	}
	_, err := v.client.write(call{http.MethodDelete, csiVolumePath(id) + suffix, nil, nil}, w)
	return err
}
