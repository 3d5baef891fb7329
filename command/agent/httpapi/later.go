package httpapi

import (
	"net/http"
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
)

// laterRoutes returns the routes of features that this version does not have. Each requires the
// right of that route in Nomad 2.0, then replies 501 with the name of the feature. It does not read
// the body, and it makes no RPC, because a server of another version could have the feature.
func (s *Server) laterRoutes() []route {
	return append(slices.Concat(s.laterServices(), s.laterCSI(), s.laterHostVolumes(), s.laterJobs(), s.laterAllocs(), s.laterAgents()),
		route{methods: "GET", path: "/", handle: toUI}, route{path: "/ui/", handle: s.later("the web UI", nil)})
}

// later returns the handler of a route of a missing feature.
func (s *Server) later(feature string, n need) func(*request) (any, error) {
	return func(r *request) (any, error) {
		if n != nil {
			if err := s.ask(r, n); err != nil {
				return nil, err
			}
		}
		return nil, nomad.Errorf(http.StatusNotImplemented, "%s: not part of this version", feature)
	}
}

func (s *Server) laterServices() []route {
	const feature = "service discovery"
	read := s.later(feature, inNamespace(acl.ReadJob))
	find := s.later(feature, either(inNamespace(acl.ReadJob), workloads))
	remove := s.later(feature, either(inNamespace(acl.SubmitJob, acl.DeleteServiceRegistration), nodes))
	return []route{
		{methods: "GET", path: "/v1/services", handle: find},
		{methods: "GET", path: "/v1/service/:name", handle: find},
		{methods: "DELETE", path: "/v1/service/:name/:service_id", handle: remove},
		{methods: "GET", path: "/v1/job/:job_id/services", handle: read},
		{methods: "GET", path: "/v1/allocation/:alloc_id/services", handle: read},
	}
}

func (s *Server) laterCSI() []route {
	const feature, volume = "volumes", "/v1/volume/csi/:id"
	plugin := needs(acl.ToRead(acl.Plugins))
	list := s.later(feature, inNamespace(acl.CSIListVolume, acl.CSIReadVolume, acl.CSIMountVolume, acl.ListJobs))
	change := s.later(feature, all(inNamespace(acl.CSIWriteVolume), plugin))
	return []route{
		{methods: "GET", path: "/v1/volumes", handle: s.laterVolumes},
		{methods: "PUT POST", path: "/v1/volumes", handle: change},
		{methods: "GET", path: "/v1/volumes/external", handle: list},
		{methods: "GET", path: "/v1/volumes/snapshot", handle: list},
		{methods: "PUT POST DELETE", path: "/v1/volumes/snapshot", handle: change},
		{methods: "GET", path: volume, handle: s.later(feature, inNamespace(acl.CSIReadVolume, acl.CSIMountVolume, acl.ReadJob))},
		{methods: "PUT", path: volume, handle: change},
		{methods: "DELETE", path: volume, handle: s.later(feature, inNamespace(acl.CSIWriteVolume))},
		{methods: "PUT", path: volume + "/create", handle: change},
		{methods: "DELETE", path: volume + "/delete", handle: change},
		{methods: "DELETE", path: volume + "/detach", handle: s.later(feature, either(all(inNamespace(acl.CSIMountVolume), plugin), nodes))},
		{methods: "GET", path: "/v1/plugins", handle: s.later("plugins", needs(acl.Question{Kind: acl.Plugins, Rights: []string{"list"}}))},
		{methods: "GET", path: "/v1/plugin/csi/:id", handle: s.later("plugins", plugin)},
	}
}

// laterVolumes is the route of CSI volumes and of host volumes. The query selects one.
func (s *Server) laterVolumes(r *request) (any, error) {
	ops := []acl.NamespaceCapability{acl.CSIListVolume, acl.CSIReadVolume, acl.CSIMountVolume, acl.ListJobs}
	if r.query.Get("type") == "host" {
		ops = []acl.NamespaceCapability{acl.HostVolumeRead}
	}
	return s.later("volumes", inNamespace(ops...))(r)
}

func (s *Server) laterHostVolumes() []route {
	with := func(op acl.NamespaceCapability) func(*request) (any, error) {
		return s.later("volumes", inNamespace(op))
	}
	return []route{
		{methods: "PUT POST", path: "/v1/volume/host/create", handle: with(acl.HostVolumeCreate)},
		{methods: "PUT POST", path: "/v1/volume/host/register", handle: with(acl.HostVolumeRegister)},
		{methods: "GET", path: "/v1/volume/host/:id", handle: with(acl.HostVolumeRead)},
		{methods: "DELETE", path: "/v1/volume/host/:id", handle: with(acl.HostVolumeDelete)},
		{methods: "GET", path: "/v1/volumes/claims", handle: with(acl.HostVolumeRead)},
		{methods: "DELETE", path: "/v1/volumes/claim/:id", handle: with(acl.HostVolumeDelete)},
	}
}

// laterJobs returns the routes of jobs and scaling.
func (s *Server) laterJobs() []route {
	const job = "/v1/job/:job_id"
	listed := all(inNamespace(acl.ListJobs), inNamespace(acl.ReadJob))
	return []route{
		{methods: "GET", path: job + "/scale", handle: s.later("scaling", inNamespace(acl.ReadJob, acl.ReadJobScaling))},
		{methods: "PUT POST", path: job + "/scale", handle: s.later("scaling", inNamespace(acl.ScaleJob, acl.SubmitJob))},
		{methods: "GET", path: "/v1/scaling/policies", handle: s.later("scaling", either(inNamespace(acl.ListScalingPolicies), listed))},
		{methods: "GET", path: "/v1/scaling/policy/:id", handle: s.later("scaling", either(inNamespace(acl.ReadScalingPolicy), listed))},
		{methods: "PUT POST", path: job + "/revert", handle: s.later("job revert", inNamespace(acl.SubmitJob, acl.RevertJob))},
		{methods: "PUT POST DELETE", path: job + "/versions/:tag/tag", handle: s.later("job version tags", inNamespace(acl.SubmitJob, acl.TagJobVersion))},
		{methods: "PUT POST", path: job + "/periodic/force", handle: s.later("periodic jobs", inNamespace(acl.DispatchJob, acl.SubmitJob, acl.ForcePeriodicJob))},
		{methods: "GET", path: job + "/actions", handle: s.later("actions", inNamespace(acl.ReadJob))},
		{methods: "GET", path: job + "/action", handle: s.later("actions", inNamespace(acl.AllocExec))},
	}
}

// laterAllocs returns the routes of single allocations and deployments. The query need not contain
// their namespace.
func (s *Server) laterAllocs() []route {
	const alloc = "/v1/client/allocation/:alloc_id"
	return []route{
		{methods: "GET", path: alloc + "/snapshot", handle: s.later("migration of ephemeral disks", either(somewhere(acl.ReadFS), nodes))},
		{methods: "GET", path: alloc + "/pause", handle: s.later("task schedules", somewhere(acl.ReadJob))},
		{methods: "PUT POST", path: alloc + "/pause", handle: s.later("task schedules", somewhere(acl.SubmitJob, acl.PauseAllocation))},
		{methods: "PUT POST", path: "/v1/deployment/unblock/:id", handle: s.later("several regions", somewhere(acl.SubmitJob, acl.UnblockDeployment))},
	}
}

func (s *Server) laterAgents() []route {
	reads := needs(acl.ToRead(acl.Agents))
	return []route{
		{methods: "GET", path: "/v1/agent/monitor", handle: s.later("log monitoring", reads)},
		{methods: "GET", path: "/v1/agent/monitor/export", handle: s.later("log monitoring", reads)},
		{methods: "GET", path: "/v1/agent/host", handle: s.later("profiles over the API", reads)},
		{methods: "GET PUT POST", path: "/v1/agent/pprof/:profile", handle: s.later("profiles over the API", needs(acl.ToWrite(acl.Agents)))},
		{methods: "GET", path: "/v1/operator/upgrade-check/vault-workload-identity", handle: s.later("upgrade checks", needs(acl.ToRead(acl.Operators)))},
		{methods: "PUT POST", path: "/v1/operator/utilization", handle: s.later("usage reporting", needs(acl.ToWrite(acl.Operators)))},
	}
}

// toUI redirects to the web UI.
func toUI(r *request) (any, error) {
	http.Redirect(r.w, r.Request, "/ui/", http.StatusTemporaryRedirect)
	return nil, errDone
}
