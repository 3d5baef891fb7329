package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// serviceRoutes returns the routes of service registrations. Nodes register them by RPC only.
func serviceRoutes() []web.Route {
	return []web.Route{
		{Methods: "GET", Path: "/v1/services", Handle: web.Read("ServiceRegistration.List", web.NoFields[message.ServiceRegistrationListRequest],
			func(o *message.ServiceRegistrationListResponse) (any, error) { return o.Services, nil })},
		{Methods: "GET", Path: "/v1/service/:name", Handle: web.Read("ServiceRegistration.GetService", serviceByName,
			func(o *message.ServiceRegistrationByNameResponse) (any, error) { return o.Services, nil })},
		{Methods: "GET", Path: "/v1/service/:name/instances", Handle: web.Read("ServiceRegistration.Instances", serviceInstances,
			func(o *message.ServiceInstancesResponse) (any, error) { return o.Instances, nil })},
		{Methods: "DELETE", Path: "/v1/service/:name/:service_id",
			Call: web.Write("ServiceRegistration.DeleteByID", serviceDelete, web.Nothing[message.ServiceRegistrationDeleteByIDResponse])},
		{Methods: "GET", Path: "/v1/job/:job_id/services", Handle: web.Read("Job.GetServiceRegistrations",
			func(r *web.Request, q *message.JobServiceRegistrationsRequest) error { q.JobID = r.Param; return nil },
			func(o *message.JobServiceRegistrationsResponse) (any, error) {
				return orMissing(o.Services, "job not found")
			})},
		{Methods: "GET", Path: "/v1/allocation/:alloc_id/services",
			Handle: missing("allocation not found", web.Read("Alloc.GetServiceRegistrations",
				func(r *web.Request, q *message.AllocServiceRegistrationsRequest) error {
					q.AllocID = r.Param
					return nil
				},
				func(o *message.AllocServiceRegistrationsResponse) (any, error) {
					return orMissing(o.Services, "allocation not found")
				}))},
	}
}

// orMissing returns the registrations, or a 404 error with text if they are nil.
func orMissing(found []*catalog.Registration, text string) (any, error) {
	if found == nil {
		return nil, apierror.Errorf(http.StatusNotFound, "%s", text)
	}
	return found, nil
}

// servicePath returns the errors of Nomad 2.0 for paths below /v1/service that name no service, no registration, or
// more. The path is escaped, so that a slash in a name does not separate segments.
func servicePath(method, path string) error {
	rest, ok := strings.CutPrefix(path+"/", "/v1/service/")
	if !ok {
		return nil
	}
	rest = strings.TrimSuffix(rest, "/")
	name, id, two := strings.Cut(rest, "/")
	switch {
	case strings.Contains(id, "/"):
		return apierror.Errorf(http.StatusBadRequest, "invalid URI")
	case two && id == "" && method == http.MethodDelete:
		return apierror.Errorf(http.StatusBadRequest, "missing service id")
	case two && id == "":
		return apierror.Errorf(http.StatusMethodNotAllowed, "Invalid method")
	case !two && name == "" && method == http.MethodGet:
		return apierror.Errorf(http.StatusBadRequest, "missing service name")
	case !two && name == "":
		return apierror.Errorf(http.StatusMethodNotAllowed, "Invalid method")
	}
	return nil
}

func serviceByName(r *web.Request, q *message.ServiceRegistrationByNameRequest) error {
	if strings.Contains(r.Param, "/") {
		return apierror.Errorf(http.StatusBadRequest, "invalid URI")
	}
	q.ServiceName, q.Choose = r.Param, r.Query.Get("choose")
	return nil
}

func serviceInstances(r *web.Request, q *message.ServiceInstancesRequest) error {
	if strings.Contains(r.Param, "/") {
		return apierror.Errorf(http.StatusBadRequest, "invalid URI")
	}
	q.ServiceName, q.NodeID = r.Param, r.Query.Get("node_id")
	return nil
}

// serviceDelete reads the ID from the path, which ends with it. The name before it has no effect.
func serviceDelete(r *web.Request, q *message.ServiceRegistrationDeleteByIDRequest) error {
	path := r.URL.EscapedPath()
	id, err := url.PathUnescape(path[strings.LastIndexByte(path, '/')+1:])
	if err != nil || strings.Contains(r.Param, "/") {
		return apierror.Errorf(http.StatusBadRequest, "invalid URI")
	}
	q.ID = id
	return nil
}
