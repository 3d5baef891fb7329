package httpclient

import (
	"net/http"
	"net/url"

	"github.com/open-nomad/open-nomad/api"
)

// Services is the handle for service registrations.
type Services struct{ client *Client }

// Services returns the handle for service registrations.
func (c *Client) Services() *Services { return &Services{c} }

// List lists the services by namespace.
func (s *Services) List(q *QueryOptions) ([]*api.ServiceRegistrationListStub, *api.QueryMeta, error) {
	return get[[]*api.ServiceRegistrationListStub](s.client, "/v1/services", q)
}

// Get returns the registrations of a service. The parameter choose selects some.
func (s *Services) Get(name string, q *QueryOptions) ([]*api.ServiceRegistration, *api.QueryMeta, error) {
	return get[[]*api.ServiceRegistration](s.client, "/v1/service/"+url.PathEscape(name), q)
}

// Delete removes a registration. Its client does not register it again before the next update of the allocation.
func (s *Services) Delete(name, id string, q *WriteOptions) (*api.WriteMeta, error) {
	return s.client.write(http.MethodDelete, "/v1/service/"+url.PathEscape(name)+"/"+url.PathEscape(id), nil, nil, q)
}

// Services returns the service registrations of the allocations of a job.
func (j *Jobs) Services(jobID string, q *QueryOptions) ([]*api.ServiceRegistration, *api.QueryMeta, error) {
	return get[[]*api.ServiceRegistration](j.client, jobPath(jobID, "/services"), q)
}

// Services returns the service registrations of an allocation.
func (a *Allocations) Services(allocID string, q *QueryOptions) ([]*api.ServiceRegistration, *api.QueryMeta, error) {
	return get[[]*api.ServiceRegistration](a.client, "/v1/allocation/"+allocID+"/services", q)
}
