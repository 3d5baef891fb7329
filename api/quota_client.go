package api

import (
	"net/http"
	"net/url"
)

// Quotas is the handle for quotas.
type Quotas struct{ client *Client }

// Quotas returns the handle for quotas.
func (c *Client) Quotas() *Quotas { return &Quotas{c} }

// List lists quotas, sorted by name.
func (q *Quotas) List(o *QueryOptions) ([]*QuotaSpec, *QueryMeta, error) {
	return get[[]*QuotaSpec](q.client, "/v1/quotas", o)
}

// PrefixList lists the quotas whose name begins with prefix.
func (q *Quotas) PrefixList(prefix string, o *QueryOptions) ([]*QuotaSpec, *QueryMeta, error) {
	opts := QueryOptions{}
	if o != nil {
		opts = *o
	}
	opts.Prefix = prefix
	return q.List(&opts)
}

// ListUsage lists the usage of all quotas.
func (q *Quotas) ListUsage(o *QueryOptions) ([]*QuotaUsage, *QueryMeta, error) {
	return get[[]*QuotaUsage](q.client, "/v1/quota-usages", o)
}

// PrefixListUsage lists the usage of the quotas whose name begins with prefix.
func (q *Quotas) PrefixListUsage(prefix string, o *QueryOptions) ([]*QuotaUsage, *QueryMeta, error) {
	opts := QueryOptions{}
	if o != nil {
		opts = *o
	}
	opts.Prefix = prefix
	return q.ListUsage(&opts)
}

// Info returns a quota.
func (q *Quotas) Info(quota string, o *QueryOptions) (*QuotaSpec, *QueryMeta, error) {
	return get[*QuotaSpec](q.client, "/v1/quota/"+url.PathEscape(quota), o)
}

// Usage returns the usage of a quota.
func (q *Quotas) Usage(quota string, o *QueryOptions) (*QuotaUsage, *QueryMeta, error) {
	return get[*QuotaUsage](q.client, "/v1/quota/usage/"+url.PathEscape(quota), o)
}

// Register creates or replaces a quota.
func (q *Quotas) Register(spec *QuotaSpec, o *WriteOptions) (*WriteMeta, error) {
	return q.client.put("/v1/quota", spec, nil, o)
}

// Delete deletes a quota that no namespace uses.
func (q *Quotas) Delete(quota string, o *WriteOptions) (*WriteMeta, error) {
	return q.client.write(http.MethodDelete, "/v1/quota/"+url.PathEscape(quota), nil, nil, o)
}
