package httpapi

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// quotaRoutes returns the routes of quotas.
func quotaRoutes() []route {
	const one = "/v1/quota/:name"
	named := func(r *request, q *message.QuotaSpecificRequest) error { q.Name = r.param; return nil }
	return []route{
		{methods: "GET", path: "/v1/quotas", handle: read("Quota.List", noFields[message.QuotaListRequest], func(o *message.QuotaListResponse) (any, error) { return o.Quotas, nil })},
		{methods: "GET", path: "/v1/quota-usages", handle: read("Quota.Usages", noFields[message.QuotaListRequest], func(o *message.QuotaUsageListResponse) (any, error) { return o.Usages, nil })},
		{methods: "GET", path: "/v1/quota/usage/:name", handle: read("Quota.Usage", named, func(o *message.SingleQuotaUsageResponse) (any, error) { return found(o.Usage, "quota not found") })},
		{methods: "GET", path: one, handle: read("Quota.Get", named, func(o *message.SingleQuotaResponse) (any, error) { return found(o.Quota, "quota not found") })},
		{methods: "PUT POST", path: "/v1/quota", call: write("Quota.Upsert", quotaSpec, nothing[message.GenericResponse])},
		{methods: "PUT POST", path: one, call: write("Quota.Upsert", quotaSpec, nothing[message.GenericResponse])},
		{methods: "DELETE", path: one, call: write("Quota.Delete", func(r *request, q *message.QuotaDeleteRequest) error { q.Names = []string{r.param}; return nil }, nothing[message.GenericResponse])},
	}
}

func quotaSpec(r *request, q *message.QuotaUpsertRequest) error {
	var spec nomad.QuotaSpec
	if err := r.decode(&spec); err != nil {
		return err
	}
	q.Quotas = []*nomad.QuotaSpec{&spec}
	if r.param == "" {
		return nil
	}
	return sameID("Quota", &spec.Name, r.param)
}
