package httpclient

import (
	"net/http"
	"net/url"

	"github.com/open-nomad/open-nomad/api"
)

// NodePools is the handle for node pools.
type NodePools struct{ client *Client }

// NodePools returns the handle for node pools.
func (c *Client) NodePools() *NodePools { return &NodePools{c} }

func poolPath(name, rest string) string { return "/v1/node/pool/" + url.PathEscape(name) + rest }

// List lists node pools, sorted by name.
func (n *NodePools) List(q *QueryOptions) ([]*api.NodePool, *api.QueryMeta, error) {
	return get[[]*api.NodePool](n.client, "/v1/node/pools", q)
}

// PrefixList lists the node pools whose name begins with prefix.
func (n *NodePools) PrefixList(prefix string, q *QueryOptions) ([]*api.NodePool, *api.QueryMeta, error) {
	opts := QueryOptions{}
	if q != nil {
		opts = *q
	}
	opts.Prefix = prefix
	return n.List(&opts)
}

// Info returns a node pool.
func (n *NodePools) Info(name string, q *QueryOptions) (*api.NodePool, *api.QueryMeta, error) {
	return get[*api.NodePool](n.client, poolPath(name, ""), q)
}

// Register creates or replaces a node pool.
func (n *NodePools) Register(pool *api.NodePool, w *WriteOptions) (*api.WriteMeta, error) {
	return n.client.put("/v1/node/pools", pool, nil, w)
}

// Delete deletes a node pool, which must have no nodes and no jobs.
func (n *NodePools) Delete(name string, w *WriteOptions) (*api.WriteMeta, error) {
	return n.client.write(http.MethodDelete, poolPath(name, ""), nil, nil, w)
}

// ListJobs lists the jobs of a node pool.
func (n *NodePools) ListJobs(poolName string, q *QueryOptions) ([]*api.JobListStub, *api.QueryMeta, error) {
	return get[[]*api.JobListStub](n.client, poolPath(poolName, "/jobs"), q)
}

// ListNodes lists the nodes of a node pool.
func (n *NodePools) ListNodes(poolName string, q *QueryOptions) ([]*api.NodeListStub, *api.QueryMeta, error) {
	return get[[]*api.NodeListStub](n.client, poolPath(poolName, "/nodes"), q)
}
