package api

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
)

// CSISnapshot is a snapshot of a CSI volume in its storage system. CreateSnapshot uses SourceVolumeID, PluginID and the
// last three fields; DeleteSnapshot uses ID, PluginID and Secrets.
type CSISnapshot struct {
	ID                     string // in the storage system
	ExternalSourceVolumeID string
	SizeBytes              int64
	CreateTime             int64 // seconds since 1970
	IsReady                bool
	SourceVolumeID         string
	PluginID               string
	Name                   string
	Secrets                CSISecrets
	Parameters             map[string]string
}

// CSISnapshotCreateRequest creates snapshots.
type CSISnapshotCreateRequest struct {
	Snapshots []*CSISnapshot
	WriteRequest
}

// CSISnapshotCreateResponse is the reply to CSISnapshotCreateRequest.
type CSISnapshotCreateResponse struct {
	Snapshots []*CSISnapshot
	QueryMeta
}

// CSISnapshotListRequest selects the snapshots of the storage system of a plugin.
type CSISnapshotListRequest struct {
	PluginID string
	Secrets  CSISecrets
	QueryOptions
}

// CSISnapshotListResponse is a page of the snapshots of a storage system.
type CSISnapshotListResponse struct {
	Snapshots []*CSISnapshot
	NextToken string
	QueryMeta
}

// CreateSnapshot makes a snapshot of a volume.
func (v *CSIVolumes) CreateSnapshot(snap *CSISnapshot, w *WriteOptions) (*CSISnapshotCreateResponse, *WriteMeta, error) {
	out := new(CSISnapshotCreateResponse)
	meta, err := v.client.put("/v1/volumes/snapshot", &CSISnapshotCreateRequest{Snapshots: []*CSISnapshot{snap}}, out, w)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}

// DeleteSnapshot deletes a snapshot of a plugin.
func (v *CSIVolumes) DeleteSnapshot(snap *CSISnapshot, w *WriteOptions) error {
	w, err := w.withCSISecrets(snap.Secrets)
	if err != nil {
		return err
	}
	params := url.Values{"snapshot_id": {snap.ID}, "plugin_id": {snap.PluginID}}
	_, err = v.client.write(call{http.MethodDelete, "/v1/volumes/snapshot?" + params.Encode(), nil, nil}, w)
	return err
}

// ListSnapshotsOpts lists the snapshots of the storage system of a plugin, the newest of the page first. The plugin
// makes the pages: use PerPage and NextToken of the request.
func (v *CSIVolumes) ListSnapshotsOpts(req *CSISnapshotListRequest) (*CSISnapshotListResponse, *QueryMeta, error) {
	q, err := req.QueryOptions.withCSISecrets(req.Secrets)
	if err != nil {
		return nil, nil, err
	}
	return v.listSnapshots(req.PluginID, q)
}

// ListSnapshots is ListSnapshotsOpts with the secrets in the form of the header: "key=value,key=value".
func (v *CSIVolumes) ListSnapshots(pluginID, secrets string, q *QueryOptions) (*CSISnapshotListResponse, *QueryMeta, error) {
	if secrets != "" {
		q = q.WithContext(q.Context())
		q.Headers = maps.Clone(q.Headers)
		if q.Headers == nil {
			q.Headers = map[string]string{}
		}
		q.Headers[csiSecretsHeader] = secrets
	}
	return v.listSnapshots(pluginID, q)
}

func (v *CSIVolumes) listSnapshots(pluginID string, q *QueryOptions) (*CSISnapshotListResponse, *QueryMeta, error) {
	out, meta, err := get[*CSISnapshotListResponse](v.client, "/v1/volumes/snapshot", q.with(map[string]string{"plugin_id": pluginID}))
	if err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(out.Snapshots, func(a, b *CSISnapshot) int { return cmp.Compare(b.CreateTime, a.CreateTime) })
	return out, meta, nil
}
