package api

import (
	"net/http"
	"net/url"
)

// NodePools is the handle for node pools.
type NodePools struct{ client *Client }

// NodePools returns the handle for node pools.
func (c *Client) NodePools() *NodePools { return &NodePools{c} }

func poolPath(name, rest string) string { return "/v1/node/pool/" + url.PathEscape(name) + rest }

// List lists node pools, sorted by name.
func (n *NodePools) List(q *QueryOptions) ([]*NodePool, *QueryMeta, error) {
	return get[[]*NodePool](n.client, "/v1/node/pools", q)
}

// PrefixList lists the node pools whose name begins with prefix.
func (n *NodePools) PrefixList(prefix string, q *QueryOptions) ([]*NodePool, *QueryMeta, error) {
	opts := QueryOptions{}
	if q != nil {
		opts = *q
	}
	opts.Prefix = prefix
	return n.List(&opts)
}

// Info returns a node pool.
func (n *NodePools) Info(name string, q *QueryOptions) (*NodePool, *QueryMeta, error) {
	return get[*NodePool](n.client, poolPath(name, ""), q)
}

// Register creates or replaces a node pool.
func (n *NodePools) Register(pool *NodePool, w *WriteOptions) (*WriteMeta, error) {
	return n.client.put("/v1/node/pools", pool, nil, w)
}

// Delete deletes a node pool without nodes and jobs.
func (n *NodePools) Delete(name string, w *WriteOptions) (*WriteMeta, error) {
	return n.client.write(http.MethodDelete, poolPath(name, ""), nil, nil, w)
}

// ListJobs lists the jobs of a node pool.
func (n *NodePools) ListJobs(poolName string, q *QueryOptions) ([]*JobListStub, *QueryMeta, error) {
	return get[[]*JobListStub](n.client, poolPath(poolName, "/jobs"), q)
}

// ListNodes lists the nodes of a node pool.
func (n *NodePools) ListNodes(poolName string, q *QueryOptions) ([]*NodeListStub, *QueryMeta, error) {
	return get[[]*NodeListStub](n.client, poolPath(poolName, "/nodes"), q)
}
