package httpapi

import (
	"net/http"
	"strings"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// csiRoutes returns the routes of CSI volumes, their snapshots, and CSI plugins. The list of volumes is in volumeRoutes.
func csiRoutes() []web.Route {
	const one, snapshots = "/v1/volume/csi/:id", "/v1/volumes/snapshot"
	register := func(steps ...func(*web.Request, *message.CSIVolumeRegisterRequest) error) web.Call {
		return web.Write("CSIVolume.Register", web.Body(steps...), registeredVolumes)
	}
	return []web.Route{
		{Methods: "PUT POST", Path: "/v1/volumes", Call: register()},
		{Methods: "PUT", Path: "/v1/volume/csi/", Call: register()}, // the servers name the missing ID, with other faults
		{Methods: "PUT", Path: one,
			Call: register(func(r *web.Request, q *message.CSIVolumeRegisterRequest) error { return ofPath(r, q.Volumes) })},
		{Methods: "PUT", Path: one + "/create", Call: web.Write("CSIVolume.Create",
			web.Body(func(r *web.Request, q *message.CSIVolumeCreateRequest) error { return ofPath(r, q.Volumes) }), createdVolumes)},
		{Methods: "GET", Path: one, Handle: web.Read("CSIVolume.Get",
			func(r *web.Request, q *message.CSIVolumeGetRequest) error { q.ID = r.Param; return nil }, shownVolume)},
		{Methods: "DELETE", Path: one,
			Call: web.Write("CSIVolume.Deregister", deregisteredVolume, web.Nothing[message.CSIVolumeDeregisterResponse])},
		{Methods: "DELETE", Path: one + "/delete",
			Call: web.Write("CSIVolume.Delete", deletedCSIVolume, web.Nothing[message.CSIVolumeDeleteResponse])},
		{Methods: "DELETE", Path: one + "/detach",
			Call: web.Write("CSIVolume.Unpublish", detachedVolume, web.Nothing[message.CSIVolumeUnpublishResponse])},
		{Methods: "GET", Path: "/v1/volumes/external", Handle: web.Read("CSIVolume.ListExternal",
			func(r *web.Request, q *message.CSIVolumeExternalListRequest) error {
				q.PluginID = r.Query.Get("plugin_id")
				return nil
			}, externalVolumes)},
		{Methods: "GET", Path: snapshots, Handle: web.Read("CSIVolume.ListSnapshots", snapshotsOf, listedSnapshots)},
		{Methods: "PUT POST", Path: snapshots,
			Call: web.Write("CSIVolume.CreateSnapshot", web.Body[message.CSISnapshotCreateRequest](), createdSnapshots)},
		{Methods: "DELETE", Path: snapshots,
			Call: web.Write("CSIVolume.DeleteSnapshot", deletedSnapshot, web.Nothing[message.CSISnapshotDeleteResponse])},
		{Methods: "GET", Path: "/v1/plugins", Handle: listPlugins},
		{Methods: "GET", Path: "/v1/plugin/csi/:id", Handle: web.Read("CSIPlugin.Get",
			func(r *web.Request, q *message.CSIPluginGetRequest) error { q.ID = r.Param; return nil },
			func(o *message.CSIPluginGetResponse) (any, error) { return web.Found(o.Plugin, "plugin not found") })},
	}
}

// ofPath refuses a body with a volume of another ID than the path.
func ofPath(r *web.Request, volumes []*csi.Volume) error {
	for _, v := range volumes {
		if v.ID != "" && v.ID != r.Param {
			return apierror.Errorf(http.StatusBadRequest, "volume ID %q of the body does not match %q of the path", v.ID, r.Param)
		}
	}
	return nil
}

// listCSIVolumes lists volumes. As in Nomad 2.0, a list without a type is empty.
func listCSIVolumes(r *web.Request) (any, error) {
	return web.Read("CSIVolume.List", func(r *web.Request, q *message.CSIVolumeListRequest) error {
		q.PluginID, q.NodeID = r.Query.Get("plugin_id"), r.Query.Get("node_id")
		return nil
	}, func(o *message.CSIVolumeListResponse) (any, error) {
		if r.Query.Get("type") == "" {
			return []struct{}{}, nil
		}
		return o.Volumes, nil
	})(r)
}

// shown returns a volume as the API shows it. The servers remove secrets already; the agent does it again, because a
// server of another version may not.
func shown(v *csi.Volume) *csi.Volume {
	out := v.Redacted()
	if out.Allocations == nil {
		out.Allocations = []*nomad.AllocListStub{}
	}
	return out
}

func allShown(volumes []*csi.Volume) []*csi.Volume {
	out := make([]*csi.Volume, 0, len(volumes))
	for _, v := range volumes {
		out = append(out, shown(v))
	}
	return out
}

func shownVolume(o *message.CSIVolumeGetResponse) (any, error) {
	if o.Volume == nil {
		return nil, apierror.Errorf(http.StatusNotFound, "volume not found")
	}
	return shown(o.Volume), nil
}

func registeredVolumes(o *message.CSIVolumeRegisterResponse) (any, error) {
	o.Volumes = allShown(o.Volumes)
	return o, nil
}

func createdVolumes(o *message.CSIVolumeCreateResponse) (any, error) {
	o.Volumes = allShown(o.Volumes)
	return o, nil
}

func deregisteredVolume(r *web.Request, q *message.CSIVolumeDeregisterRequest) (err error) {
	q.VolumeIDs = []string{r.Param}
	if q.Force, err = r.Flag("force"); err != nil {
		return apierror.Errorf(http.StatusBadRequest, "invalid force value: use true or false")
	}
	return nil
}

func deletedCSIVolume(r *web.Request, q *message.CSIVolumeDeleteRequest) (err error) {
	q.VolumeIDs = []string{r.Param}
	q.Secrets, err = secretsOf(r)
	return err
}

func detachedVolume(r *web.Request, q *message.CSIVolumeUnpublishRequest) error {
	node := r.Query.Get("node")
	if node == "" {
		return apierror.Errorf(http.StatusBadRequest, "detach requires node ID")
	}
	q.VolumeID, q.Claim = r.Param, &csi.Claim{NodeID: node}
	return nil
}

// secretsOf reads the secrets of a request without a body from the header: key=value pairs with commas between them.
// Errors do not contain them.
func secretsOf(r *web.Request) (csi.Secrets, error) {
	text := strings.TrimSpace(r.Header.Get("X-Nomad-CSI-Secrets"))
	if text == "" {
		return nil, nil
	}
	out := csi.Secrets{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || key == "" {
			return nil, apierror.Errorf(http.StatusBadRequest,
				"invalid header X-Nomad-CSI-Secrets: use key=value, with commas between several; a value cannot contain commas")
		}
		out[key] = value
	}
	return out, nil
}

func externalVolumes(o *message.CSIVolumeExternalListResponse) (any, error) {
	o.NextToken = web.PageToken(o.NextToken)
	if o.Volumes == nil {
		o.Volumes = []*csi.ExternalStub{}
	}
	return o, nil
}

func snapshotsOf(r *web.Request, q *message.CSISnapshotListRequest) (err error) {
	q.PluginID = r.Query.Get("plugin_id")
	q.Secrets, err = secretsOf(r)
	return err
}

func listedSnapshots(o *message.CSISnapshotListResponse) (any, error) {
	o.NextToken, o.Snapshots = web.PageToken(o.NextToken), withoutSecrets(o.Snapshots)
	return o, nil
}

func createdSnapshots(o *message.CSISnapshotCreateResponse) (any, error) {
	o.Snapshots = withoutSecrets(o.Snapshots)
	return o, nil
}

// withoutSecrets returns copies of snapshots that have no secrets. The list is not nil.
func withoutSecrets(list []*csi.Snapshot) []*csi.Snapshot {
	out := make([]*csi.Snapshot, 0, len(list))
	for _, s := range list {
		c := *s
		c.Secrets = nil
		out = append(out, &c)
	}
	return out
}

func deletedSnapshot(r *web.Request, q *message.CSISnapshotDeleteRequest) error {
	secrets, err := secretsOf(r)
	q.Snapshots = []*csi.Snapshot{{ID: r.Query.Get("snapshot_id"), PluginID: r.Query.Get("plugin_id"), Secrets: secrets}}
	return err
}

// listPlugins lists CSI plugins. As in Nomad 2.0, a list without a type is empty, and one of another type has no body.
func listPlugins(r *web.Request) (any, error) {
	if kind := r.Query.Get("type"); kind != "" && kind != "csi" {
		return web.Read("CSIPlugin.List", web.NoFields[message.CSIPluginListRequest], web.Nothing[message.CSIPluginListResponse])(r)
	}
	return web.Read("CSIPlugin.List", web.NoFields[message.CSIPluginListRequest], func(o *message.CSIPluginListResponse) (any, error) {
		if r.Query.Get("type") == "" {
			return []struct{}{}, nil
		}
		return o.Plugins, nil
	})(r)
}
