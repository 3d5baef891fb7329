package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/nomad"
)

// laterRoutes are the routes of features that this version does not have: each
// answers by name, so that a tool says what is missing instead of "not found".
func laterRoutes() []route {
	var out []route
	for feature, paths := range map[string][]string{
		"service discovery":     {"/v1/services", "/v1/service/:name", "/v1/job/:job_id/services", "/v1/allocation/:alloc_id/services"},
		"volumes":               {"/v1/volumes", "/v1/volume/csi/:id", "/v1/volume/host/:id", "/v1/volume/host/create", "/v1/volume/host/register", "/v1/volumes/claims"},
		"plugins":               {"/v1/plugins", "/v1/plugin/csi/:id"},
		"scaling":               {"/v1/scaling/policies", "/v1/scaling/policy/:id", "/v1/job/:job_id/scale"},
		"job revert":            {"/v1/job/:job_id/revert"},
		"job version tags":      {"/v1/job/:job_id/versions/:tag/tag"},
		"periodic jobs":         {"/v1/job/:job_id/periodic/force"},
		"actions":               {"/v1/job/:job_id/actions", "/v1/job/:job_id/action"},
		"log monitoring":        {"/v1/agent/monitor", "/v1/agent/monitor/export"},
		"profiles over the API": {"/v1/agent/pprof/:profile", "/v1/agent/host"},
		"the web UI":            {"/ui/"},
	} {
		for _, p := range paths {
			out = append(out, route{path: p, handle: later(feature)})
		}
	}
	return out
}

func later(feature string) func(*request) (any, error) {
	return func(*request) (any, error) {
		return nil, nomad.Errorf(http.StatusNotImplemented, "%s: not part of this version", feature)
	}
}
