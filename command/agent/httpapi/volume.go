package httpapi

import (
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// volumeRoutes returns the routes of dynamic host volumes and of their claims.
func volumeRoutes() []web.Route {
	const one = "/v1/volume/host/:id"
	get := func(r *web.Request, q *message.HostVolumeGetRequest) error { q.ID = r.Param; return nil }
	return []web.Route{
		{Methods: "GET", Path: "/v1/volumes", Handle: listVolumes},
		{Methods: "PUT POST", Path: "/v1/volume/host/create",
			Call: web.Write("HostVolume.Create", web.Body[message.HostVolumeCreateRequest](), web.Full[message.HostVolumeCreateResponse])},
		{Methods: "PUT POST", Path: "/v1/volume/host/register",
			Call: web.Write("HostVolume.Register", web.Body[message.HostVolumeRegisterRequest](), web.Full[message.HostVolumeRegisterResponse])},
		{Methods: "GET", Path: one, Handle: web.Read("HostVolume.Get", get,
			func(o *message.HostVolumeGetResponse) (any, error) { return web.Found(o.Volume, "volume not found") })},
		{Methods: "DELETE", Path: one, Call: web.Write("HostVolume.Delete", deletedVolume, web.Full[message.HostVolumeDeleteResponse])},
		{Methods: "GET", Path: "/v1/volumes/claims",
			Handle: web.Read("TaskGroupHostVolumeClaim.List", claimsOf,
				func(o *message.TaskGroupVolumeClaimListResponse) (any, error) { return o.Claims, nil })},
		{Methods: "DELETE", Path: "/v1/volumes/claim/:id", Call: web.Write("TaskGroupHostVolumeClaim.Delete",
			func(r *web.Request, q *message.TaskGroupVolumeClaimDeleteRequest) error {
				q.ClaimID = r.Param
				return nil
			}, web.Nothing[message.TaskGroupVolumeClaimDeleteResponse])},
	}
}

// listVolumes lists volumes of a type. As in Nomad 2.0, a list without a type is empty.
func listVolumes(r *web.Request) (any, error) {
	switch kind := r.Query.Get("type"); kind {
	case "host":
		return web.Read("HostVolume.List", func(r *web.Request, q *message.HostVolumeListRequest) error {
			q.NodeID, q.NodePool = r.Query.Get("node_id"), r.Query.Get("node_pool")
			return nil
		}, func(o *message.HostVolumeListResponse) (any, error) { return o.Volumes, nil })(r)
	case "", "csi":
		return listCSIVolumes(r)
	default:
		return nil, apierror.Errorf(404, "unknown volume type %q: use host or csi", kind)
	}
}

func deletedVolume(r *web.Request, q *message.HostVolumeDeleteRequest) (err error) {
	q.VolumeID = r.Param
	q.Force, err = r.Flag("force")
	return err
}

func claimsOf(r *web.Request, q *message.TaskGroupVolumeClaimListRequest) error {
	q.JobID, q.TaskGroup, q.VolumeName = r.Query.Get("job_id"), r.Query.Get("task_group"), r.Query.Get("volume_name")
	return nil
}
