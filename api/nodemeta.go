package api

import "net/http"

// NodeMetaApplyRequest changes the metadata of a node. A nil value removes the key. An empty node ID
// means the node of the agent.
type NodeMetaApplyRequest struct {
	NodeID string
	Meta   map[string]*string
}

// NodeMetaResponse is the metadata of a node. Meta is Static, which the agent's configuration sets,
// with the changes in Dynamic applied. A nil value in Dynamic removes a static key.
type NodeMetaResponse struct {
	Meta    map[string]string
	Dynamic map[string]*string
	Static  map[string]string
}

// NodeMeta is the handle for the metadata of nodes.
type NodeMeta struct{ client *Client }

// Meta returns the handle for the metadata of nodes.
func (n *Nodes) Meta() *NodeMeta { return &NodeMeta{n.client} }

// Apply changes the metadata of a node and returns the result.
func (m *NodeMeta) Apply(change *NodeMetaApplyRequest, q *QueryOptions) (*NodeMetaResponse, error) {
	var out NodeMetaResponse
	_, err := m.client.queryBody(call{http.MethodPost, "/v1/client/metadata", change, &out}, q)
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// Read returns the metadata of a node. An empty node ID means the node of the agent.
func (m *NodeMeta) Read(nodeID string, q *QueryOptions) (*NodeMetaResponse, error) {
	out, _, err := get[*NodeMetaResponse](m.client, clientPath("metadata", nodeID), q)
	return out, err
}
