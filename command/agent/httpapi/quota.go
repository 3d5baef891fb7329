package httpapi

import (
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/quota"
)

// quotaRoutes returns the routes of quotas.
func quotaRoutes() []web.Route {
	const one = "/v1/quota/:name"
	named := func(r *web.Request, q *message.QuotaSpecificRequest) error { q.Name = r.Param; return nil }
	return []web.Route{
		{Methods: "GET", Path: "/v1/quotas",
			Handle: web.Read("Quota.List", web.NoFields[message.QuotaListRequest],
				func(o *message.QuotaListResponse) (any, error) { return o.Quotas, nil })},
		{Methods: "GET", Path: "/v1/quota-usages",
			Handle: web.Read("Quota.Usages", web.NoFields[message.QuotaListRequest],
				func(o *message.QuotaUsageListResponse) (any, error) { return o.Usages, nil })},
		{Methods: "GET", Path: "/v1/quota/usage/:name",
			Handle: web.Read("Quota.Usage", named,
				func(o *message.SingleQuotaUsageResponse) (any, error) { return web.Found(o.Usage, "quota not found") })},
		{Methods: "GET", Path: one, Handle: web.Read("Quota.Get", named,
			func(o *message.SingleQuotaResponse) (any, error) { return web.Found(o.Quota, "quota not found") })},
		{Methods: "PUT POST", Path: "/v1/quota", Call: web.Write("Quota.Upsert", quotaSpec, web.Nothing[message.GenericResponse])},
		{Methods: "PUT POST", Path: one, Call: web.Write("Quota.Upsert", quotaSpec, web.Nothing[message.GenericResponse])},
		{Methods: "DELETE", Path: one,
			Call: web.Write("Quota.Delete", func(r *web.Request, q *message.QuotaDeleteRequest) error { q.Names = []string{r.Param}; return nil },
				web.Nothing[message.GenericResponse])},
	}
}

func quotaSpec(r *web.Request, q *message.QuotaUpsertRequest) error {
	var spec quota.Spec
	if err := r.DecodeNamed(&spec); err != nil {
		return err
	}
	q.Quotas = []*quota.Spec{&spec}
	if r.Param == "" {
		return nil
	}
	return web.SameID("Quota", &spec.Name, r.Param)
}
