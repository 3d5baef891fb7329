package api

import (
	"net/http"
	"net/url"
)

// Nodes is the handle for nodes.
type Nodes struct{ client *Client }

// Nodes returns the handle for nodes.
func (c *Client) Nodes() *Nodes { return &Nodes{c} }

func nodePath(id, rest string) string { return "/v1/node/" + url.PathEscape(id) + rest }

// clientPath returns the path of a request to a client agent.
func clientPath(rest, nodeID string) string {
	if nodeID == "" {
		return "/v1/client/" + rest
	}
	return "/v1/client/" + rest + "?node_id=" + url.QueryEscape(nodeID)
}

// List lists nodes, sorted by ID.
func (n *Nodes) List(q *QueryOptions) ([]*NodeListStub, *QueryMeta, error) {
	return get[[]*NodeListStub](n.client, "/v1/nodes", q)
}

// PrefixList lists the nodes whose ID begins with prefix.
func (n *Nodes) PrefixList(prefix string) ([]*NodeListStub, *QueryMeta, error) {
	return n.List(&QueryOptions{Prefix: prefix})
}

// Info returns a node.
func (n *Nodes) Info(nodeID string, q *QueryOptions) (*Node, *QueryMeta, error) {
	return get[*Node](n.client, nodePath(nodeID, ""), q)
}

// Allocations lists the allocations of a node with their jobs.
func (n *Nodes) Allocations(nodeID string, q *QueryOptions) ([]*Allocation, *QueryMeta, error) {
	return get[[]*Allocation](n.client, nodePath(nodeID, "/allocations"), q)
}

// CSIVolumes lists the CSI volumes of the allocations of a node, the newest first.
func (n *Nodes) CSIVolumes(nodeID string, q *QueryOptions) ([]*CSIVolumeListStub, error) {
	if nodeID == "" {
		return nil, missing("node ID")
	}
	list, _, err := n.client.CSIVolumes().List(q.with(map[string]string{"node_id": nodeID}))
	return list, err
}

// Stats returns the current resource usage of a node's host. An empty ID means the node of
// the agent.
func (n *Nodes) Stats(nodeID string, q *QueryOptions) (*HostStats, error) {
	out, _, err := get[*HostStats](n.client, clientPath("stats", nodeID), q)
	return out, err
}

// PrefixListOpts lists the nodes whose ID begins with prefix.
func (n *Nodes) PrefixListOpts(prefix string, opts *QueryOptions) ([]*NodeListStub, *QueryMeta, error) {
	q := QueryOptions{}
	if opts != nil {
		q = *opts
	}
	q.Prefix = prefix
	return n.List(&q)
}

// UpdateDrain starts a drain, or stops it if spec is nil.
func (n *Nodes) UpdateDrain(nodeID string, spec *DrainSpec, markEligible bool, q *WriteOptions) (*NodeDrainUpdateResponse, error) {
	return n.UpdateDrainOpts(nodeID, &DrainOptions{DrainSpec: spec, MarkEligible: markEligible}, q)
}

// UpdateDrainOpts is UpdateDrain with options.
func (n *Nodes) UpdateDrainOpts(nodeID string, opts *DrainOptions, q *WriteOptions) (*NodeDrainUpdateResponse, error) {
	req := &NodeUpdateDrainRequest{NodeID: nodeID}
	if opts != nil {
		req.DrainSpec, req.MarkEligible, req.Meta = opts.DrainSpec, opts.MarkEligible, opts.Meta
	}
	var out NodeDrainUpdateResponse
	meta, err := n.client.put(nodePath(nodeID, "/drain"), req, &out, q)
	if err != nil {
		return nil, err
	}
	out.WriteMeta = *meta
	return &out, nil
}

// ToggleEligibility sets whether a node is eligible for new allocations.
func (n *Nodes) ToggleEligibility(nodeID string, eligible bool, q *WriteOptions) (*NodeEligibilityUpdateResponse, error) {
	req := &NodeUpdateEligibilityRequest{NodeID: nodeID, Eligibility: NodeSchedulingIneligible}
	if eligible {
		req.Eligibility = NodeSchedulingEligible
	}
	var out NodeEligibilityUpdateResponse
	meta, err := n.client.put(nodePath(nodeID, "/eligibility"), req, &out, q)
	if err != nil {
		return nil, err
	}
	out.WriteMeta = *meta
	return &out, nil
}

// ForceEvaluate creates an evaluation for each job of a node. It returns the ID of the
// first one.
func (n *Nodes) ForceEvaluate(nodeID string, q *WriteOptions) (string, *WriteMeta, error) {
	var out NodeUpdateResponse
	meta, err := n.client.put(nodePath(nodeID, "/evaluate"), nil, &out, q)
	if err != nil {
		return "", nil, err
	}
	if len(out.EvalIDs) == 0 {
		return "", meta, nil
	}
	return out.EvalIDs[0], meta, nil
}

// Purge removes a node from the servers.
func (n *Nodes) Purge(nodeID string, q *QueryOptions) (*NodePurgeResponse, *QueryMeta, error) {
	var out NodePurgeResponse
	meta, err := n.client.queryBody(call{http.MethodPut, nodePath(nodeID, "/purge"), nil, &out}, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// GC makes a node remove the files of all stopped allocations.
func (n *Nodes) GC(nodeID string, q *QueryOptions) error {
	_, err := n.client.query(clientPath("gc", nodeID), nil, q)
	return err
}

// GcAlloc makes the node of a stopped allocation remove its files.
func (n *Nodes) GcAlloc(allocID string, q *QueryOptions) error {
	_, err := n.client.query(clientAllocPath(allocID, "/gc"), nil, q)
	return err
}

// ArtifactCache returns the state of a node's cache of artifacts. An empty node ID means the node
// of the agent. It exists only in open-nomad.
func (n *Nodes) ArtifactCache(nodeID string, q *QueryOptions) (*ArtifactCacheResponse, error) {
	out, _, err := get[*ArtifactCacheResponse](n.client, clientPath("artifact-cache", nodeID), q)
	return out, err
}

// PurgeArtifactCache removes all files from a node's cache of artifacts, and returns its state
// afterwards.
func (n *Nodes) PurgeArtifactCache(nodeID string, q *QueryOptions) (*ArtifactCacheResponse, error) {
	var out ArtifactCacheResponse
	if _, err := n.client.queryBody(call{http.MethodDelete, clientPath("artifact-cache", nodeID), nil, &out}, q); err != nil {
		return nil, err
	}
	return &out, nil
}

// VaultTokens describes the tokens of a node's tasks in Vault, of the allocations that the caller may read. An empty node ID
// means the node of the agent. It exists only in open-nomad.
func (n *Nodes) VaultTokens(nodeID string, q *QueryOptions) ([]*VaultToken, error) {
	out, _, err := get[[]*VaultToken](n.client, clientPath("vault-tokens", nodeID), q)
	return out, err
}

// NodeIdentity is the handle for node identities.
type NodeIdentity struct{ client *Client }

// Identity returns the handle for node identities.
func (n *Nodes) Identity() *NodeIdentity { return &NodeIdentity{n.client} }

// Get returns the claims of a node's identity. An empty node ID means the node of the
// agent.
func (i *NodeIdentity) Get(req *NodeIdentityGetRequest, q *QueryOptions) (*NodeIdentityGetResponse, error) {
	out, _, err := get[*NodeIdentityGetResponse](i.client, clientPath("identity", req.NodeID), q)
	return out, err
}

// Renew makes a node request a new identity with its next heartbeat.
func (i *NodeIdentity) Renew(req *NodeIdentityRenewRequest, q *QueryOptions) (*NodeIdentityRenewResponse, error) {
	var out NodeIdentityRenewResponse
	_, err := i.client.queryBody(call{http.MethodPut, clientPath("identity/renew", req.NodeID), req, &out}, q)
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// DrainOptions are the options of Nodes.UpdateDrainOpts.
type DrainOptions struct {
	DrainSpec    *DrainSpec
	MarkEligible bool
	Meta         map[string]string
}
