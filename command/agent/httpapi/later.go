package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// laterRoutes returns the routes of features that this version does not have. Each requires the
// right of that route in Nomad 2.0, then replies 501 with the name of the feature. It does not read
// the body, and it makes no RPC, because a server of another version could have the feature.
func laterRoutes() []web.Route {
	return laterCSI()
}

// later returns the handler of a route of a missing feature.
func later(feature string, n web.Need) web.Handler {
	return func(r *web.Request) (any, error) {
		if n != nil {
			if err := r.Ask(n); err != nil {
				return nil, err
			}
		}
		return nil, apierror.Errorf(http.StatusNotImplemented, "%s: not part of this version", feature)
	}
}

func laterCSI() []web.Route {
	const feature, volume = "CSI volumes", "/v1/volume/csi/:id"
	plugin := web.Needs(acl.ToRead(acl.Plugins))
	list := later(feature, web.InNamespace(acl.CSIListVolume, acl.CSIReadVolume, acl.CSIMountVolume, acl.ListJobs))
	change := later(feature, web.All(web.InNamespace(acl.CSIWriteVolume), plugin))
	return []web.Route{
		{Methods: "PUT POST", Path: "/v1/volumes", Handle: change},
		{Methods: "GET", Path: "/v1/volumes/external", Handle: list},
		{Methods: "GET", Path: "/v1/volumes/snapshot", Handle: list},
		{Methods: "PUT POST DELETE", Path: "/v1/volumes/snapshot", Handle: change},
		{Methods: "GET", Path: volume, Handle: later(feature, web.InNamespace(acl.CSIReadVolume, acl.CSIMountVolume, acl.ReadJob))},
		{Methods: "PUT", Path: volume, Handle: change},
		{Methods: "DELETE", Path: volume, Handle: later(feature, web.InNamespace(acl.CSIWriteVolume))},
		{Methods: "PUT", Path: volume + "/create", Handle: change},
		{Methods: "DELETE", Path: volume + "/delete", Handle: change},
		{Methods: "DELETE", Path: volume + "/detach",
			Handle: later(feature, web.Either(web.All(web.InNamespace(acl.CSIMountVolume), plugin), web.Nodes))},
		{Methods: "GET", Path: "/v1/plugin/csi/:id", Handle: later("CSI plugins", plugin)},
	}
}
