package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// The built-in node pools.
const (
	NodePoolAll     = "all"
	NodePoolDefault = "default"
)

// NodePool is a named set of nodes that a job can select. NodeIdentityTTL is the TTL of the
// identities of its nodes.
type NodePool struct {
	Name                   string
	Description            string
	Meta                   map[string]string
	NodeIdentityTTL        time.Duration
	SchedulerConfiguration *NodePoolSchedulerConfiguration
	CreateIndex            uint64
	ModifyIndex            uint64
}

// NodePoolSchedulerConfiguration overrides the scheduler configuration for a node pool.
type NodePoolSchedulerConfiguration struct {
	SchedulerAlgorithm            SchedulerAlgorithm
	MemoryOversubscriptionEnabled *bool
}

// MarshalJSON encodes the TTL as a string such as "24h0m0s", or "" if it is zero.
func (n *NodePool) MarshalJSON() ([]byte, error) {
	type plain NodePool
	return json.Marshal(&struct {
		NodeIdentityTTL string
		*plain
	}{durationText(n.NodeIdentityTTL), (*plain)(n)})
}

// UnmarshalJSON decodes the TTL from a string or from nanoseconds.
func (n *NodePool) UnmarshalJSON(b []byte) error {
	type plain NodePool
	aux := &struct {
		NodeIdentityTTL any
		*plain
	}{plain: (*plain)(n)}
	if err := json.Unmarshal(b, aux); err != nil {
		return err
	}
	ttl, err := durationOf(aux.NodeIdentityTTL)
	if err != nil {
		return fmt.Errorf("NodeIdentityTTL: %w", err)
	}
	n.NodeIdentityTTL = ttl
	return nil
}

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

// Delete deletes a node pool, which must have no nodes and no jobs.
func (n *NodePools) Delete(name string, w *WriteOptions) (*WriteMeta, error) {
	return n.client.write(call{http.MethodDelete, poolPath(name, ""), nil, nil}, w)
}

// ListJobs lists the jobs of a node pool.
func (n *NodePools) ListJobs(poolName string, q *QueryOptions) ([]*JobListStub, *QueryMeta, error) {
	return get[[]*JobListStub](n.client, poolPath(poolName, "/jobs"), q)
}

// ListNodes lists the nodes of a node pool.
func (n *NodePools) ListNodes(poolName string, q *QueryOptions) ([]*NodeListStub, *QueryMeta, error) {
	return get[[]*NodeListStub](n.client, poolPath(poolName, "/nodes"), q)
}
