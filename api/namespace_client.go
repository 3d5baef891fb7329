package api

import (
	"net/http"
	"net/url"
)

// Namespaces reads and changes namespaces.
type Namespaces struct{ client *Client }

// Namespaces returns the handle for namespaces.
func (c *Client) Namespaces() *Namespaces { return &Namespaces{c} }

// List lists namespaces by their name.
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

// Register stores a namespace.
func (n *Namespaces) Register(namespace *Namespace, q *WriteOptions) (*WriteMeta, error) {
	return n.client.put("/v1/namespace", namespace, nil, q)
}

// Delete forgets a namespace in which there is no job.
func (n *Namespaces) Delete(namespace string, q *WriteOptions) (*WriteMeta, error) {
	return n.client.write(http.MethodDelete, "/v1/namespace/"+url.PathEscape(namespace), nil, nil, q)
}
