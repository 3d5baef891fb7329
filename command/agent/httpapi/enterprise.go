package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
)

// enterpriseRoutes returns the routes that only Nomad Enterprise has. Tools depend on the exact
// reply.
func (s *Server) enterpriseRoutes() []route {
	operator := needs(acl.OfOperator(acl.LicenseRead))
	read, write := needs(acl.ToRead(acl.Sentinels)), needs(acl.ToWrite(acl.Sentinels))
	recommend := inNamespace(acl.SubmitRecommendation, acl.SubmitJob)
	return []route{
		{methods: "GET", path: "/v1/operator/license", handle: s.noLicense(operator)},
		{methods: "PUT POST", path: "/v1/operator/license", handle: s.enterprise(needs(acl.ToWrite(acl.Operators)))},
		{methods: "GET", path: "/v1/sentinel/policies", handle: s.enterprise(read)},
		{methods: "GET", path: "/v1/sentinel/policy/:name", handle: s.enterprise(read)},
		{methods: "PUT POST DELETE", path: "/v1/sentinel/policy/:name", handle: s.enterprise(write)},
		{methods: "GET", path: "/v1/recommendations", handle: s.enterprise(recommend)},
		{methods: "GET", path: "/v1/recommendation/:id", handle: s.enterprise(recommend)},
		{methods: "PUT POST", path: "/v1/recommendation", handle: s.enterprise(recommend)},
		{methods: "PUT POST", path: "/v1/recommendations/apply", handle: s.enterprise(recommend)},
	}
}

// enterprise returns the handler of a route of Nomad Enterprise.
func (s *Server) enterprise(n need) func(*request) (any, error) {
	return func(r *request) (any, error) {
		if err := s.ask(r, n); err != nil {
			return nil, err
		}
		return nil, nomad.Errorf(http.StatusNotImplemented, "Nomad Enterprise only endpoint")
	}
}

// noLicense returns a handler that replies 204: no license exists.
func (s *Server) noLicense(n need) func(*request) (any, error) {
	return func(r *request) (any, error) {
		if err := s.ask(r, n); err != nil {
			return nil, err
		}
		r.w.WriteHeader(http.StatusNoContent)
		return nil, errDone
	}
}
