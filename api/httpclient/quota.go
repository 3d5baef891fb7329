package httpclient

import (
	"net/http"
	"net/url"

	"github.com/open-nomad/open-nomad/api"
)

// Quotas is the handle for quotas.
type Quotas struct{ client *Client }

// Quotas returns the handle for quotas.
func (c *Client) Quotas() *Quotas { return &Quotas{c} }

// List lists quotas, sorted by name.
func (q *Quotas) List(o *QueryOptions) ([]*api.QuotaSpec, *api.QueryMeta, error) {
	return get[[]*api.QuotaSpec](q.client, "/v1/quotas", o)
}

// PrefixList lists the quotas whose name begins with prefix.
func (q *Quotas) PrefixList(prefix string, o *QueryOptions) ([]*api.QuotaSpec, *api.QueryMeta, error) {
	opts := QueryOptions{}
	if o != nil {
		opts = *o
	}
	opts.Prefix = prefix
	return q.List(&opts)
}

// ListUsage lists the usage of all quotas.
func (q *Quotas) ListUsage(o *QueryOptions) ([]*api.QuotaUsage, *api.QueryMeta, error) {
	return get[[]*api.QuotaUsage](q.client, "/v1/quota-usages", o)
}

// PrefixListUsage lists the usage of the quotas whose name begins with prefix.
func (q *Quotas) PrefixListUsage(prefix string, o *QueryOptions) ([]*api.QuotaUsage, *api.QueryMeta, error) {
	opts := QueryOptions{}
	if o != nil {
		opts = *o
	}
	opts.Prefix = prefix
	return q.ListUsage(&opts)
}

// Info returns a quota.
func (q *Quotas) Info(quota string, o *QueryOptions) (*api.QuotaSpec, *api.QueryMeta, error) {
	return get[*api.QuotaSpec](q.client, "/v1/quota/"+url.PathEscape(quota), o)
}

// Usage returns the usage of a quota.
func (q *Quotas) Usage(quota string, o *QueryOptions) (*api.QuotaUsage, *api.QueryMeta, error) {
	return get[*api.QuotaUsage](q.client, "/v1/quota/usage/"+url.PathEscape(quota), o)
}

// Register creates or replaces a quota.
func (q *Quotas) Register(spec *api.QuotaSpec, o *WriteOptions) (*api.WriteMeta, error) {
	return q.client.put("/v1/quota", spec, nil, o)
}

// Delete deletes a quota that no namespace uses.
func (q *Quotas) Delete(quota string, o *WriteOptions) (*api.WriteMeta, error) {
	return q.client.write(http.MethodDelete, "/v1/quota/"+url.PathEscape(quota), nil, nil, o)
}
