package api

import (
	"net/http"
	"net/url"
)

// Namespaces is the handle for namespaces.
type Namespaces struct{ client *Client }

// Namespaces returns the handle for namespaces.
func (c *Client) Namespaces() *Namespaces { return &Namespaces{c} }

// List lists namespaces, sorted by name.
func (n *Namespaces) List(q *QueryOptions) ([]*Namespace, *QueryMeta, error) {
	return get[[]*Namespace](n.client, "/v1/namespaces", q)
}

// PrefixList lists the namespaces whose name begins with prefix.
func (n *Namespaces) PrefixList(prefix string, q *QueryOptions) ([]*Namespace, *QueryMeta, error) {
	opts := QueryOptions{}
	if q != nil {
		opts = *q
	}
	opts.Prefix = prefix
	return n.List(&opts)
}

// Info returns a namespace.
func (n *Namespaces) Info(name string, q *QueryOptions) (*Namespace, *QueryMeta, error) {
	return get[*Namespace](n.client, "/v1/namespace/"+url.PathEscape(name), q)
}

// Register creates or replaces a namespace.
func (n *Namespaces) Register(namespace *Namespace, q *WriteOptions) (*WriteMeta, error) {
	return n.client.put("/v1/namespace", namespace, nil, q)
}

// Delete deletes a namespace without jobs.
func (n *Namespaces) Delete(namespace string, q *WriteOptions) (*WriteMeta, error) {
	return n.client.write(http.MethodDelete, "/v1/namespace/"+url.PathEscape(namespace), nil, nil, q)
}
