package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// enterpriseRoutes returns the routes that only Nomad Enterprise has. Tools depend on the exact
// reply.
func enterpriseRoutes() []web.Route {
	operator := web.Needs(acl.OfOperator(acl.LicenseRead))
	read, write := web.Needs(acl.ToRead(acl.Sentinels)), web.Needs(acl.ToWrite(acl.Sentinels))
	recommend := web.InNamespace(acl.SubmitRecommendation, acl.SubmitJob)
	return []web.Route{
		{Methods: "GET", Path: "/v1/operator/license", Handle: noLicense(operator)},
		{Methods: "PUT POST", Path: "/v1/operator/license", Handle: enterprise(web.Needs(acl.ToWrite(acl.Operators)))},
		{Methods: "PUT POST", Path: "/v1/operator/utilization", Handle: enterprise(web.Needs(acl.ToWrite(acl.Operators)))},
		{Methods: "GET", Path: "/v1/sentinel/policies", Handle: enterprise(read)},
		{Methods: "GET", Path: "/v1/sentinel/policy/:name", Handle: enterprise(read)},
		{Methods: "PUT POST DELETE", Path: "/v1/sentinel/policy/:name", Handle: enterprise(write)},
		{Methods: "GET", Path: "/v1/recommendations", Handle: enterprise(recommend)},
		{Methods: "GET", Path: "/v1/recommendation/:id", Handle: enterprise(recommend)},
		{Methods: "PUT POST", Path: "/v1/recommendation", Handle: enterprise(recommend)},
		{Methods: "PUT POST", Path: "/v1/recommendations/apply", Handle: enterprise(recommend)},
	}
}

// enterprise returns the handler of a route of Nomad Enterprise.
func enterprise(n web.Need) web.Handler {
	return func(r *web.Request) (any, error) {
		if err := r.Ask(n); err != nil {
			return nil, err
		}
		return nil, apierror.Errorf(http.StatusNotImplemented, "Nomad Enterprise only endpoint")
	}
}

// noLicense returns a handler that replies 204: no license exists.
func noLicense(n web.Need) web.Handler {
	return func(r *web.Request) (any, error) {
		if err := r.Ask(n); err != nil {
			return nil, err
		}
		r.Reply.WriteHeader(http.StatusNoContent)
		return nil, web.ErrDone
	}
}
