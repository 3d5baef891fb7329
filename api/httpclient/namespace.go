package httpclient

import (
	"net/http"
	"net/url"

	"github.com/open-nomad/open-nomad/api"
)

// Namespaces is the handle for namespaces.
type Namespaces struct{ client *Client }

// Namespaces returns the handle for namespaces.
func (c *Client) Namespaces() *Namespaces { return &Namespaces{c} }

// List lists namespaces, sorted by name.
func (n *Namespaces) List(q *QueryOptions) ([]*api.Namespace, *api.QueryMeta, error) {
	return get[[]*api.Namespace](n.client, "/v1/namespaces", q)
}

// PrefixList lists the namespaces whose name begins with prefix.
func (n *Namespaces) PrefixList(prefix string, q *QueryOptions) ([]*api.Namespace, *api.QueryMeta, error) {
	opts := QueryOptions{}
	if q != nil {
		opts = *q
	}
	opts.Prefix = prefix
	return n.List(&opts)
}

// Info returns a namespace.
func (n *Namespaces) Info(name string, q *QueryOptions) (*api.Namespace, *api.QueryMeta, error) {
	return get[*api.Namespace](n.client, "/v1/namespace/"+url.PathEscape(name), q)
}

// Register creates or replaces a namespace.
func (n *Namespaces) Register(namespace *api.Namespace, q *WriteOptions) (*api.WriteMeta, error) {
	return n.client.put("/v1/namespace", namespace, nil, q)
}

// Delete deletes a namespace, which must have no jobs.
func (n *Namespaces) Delete(namespace string, q *WriteOptions) (*api.WriteMeta, error) {
	return n.client.write(http.MethodDelete, "/v1/namespace/"+url.PathEscape(namespace), nil, nil, q)
}
