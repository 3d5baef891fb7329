package httpclient

import (
	"net/http"

	"github.com/open-nomad/open-nomad/api"
)

// NodeMeta is the handle for the metadata of nodes.
type NodeMeta struct{ client *Client }

// Meta returns the handle for the metadata of nodes.
func (n *Nodes) Meta() *NodeMeta { return &NodeMeta{n.client} }

// Apply changes the metadata of a node and returns the result.
func (m *NodeMeta) Apply(change *api.NodeMetaApplyRequest, q *QueryOptions) (*api.NodeMetaResponse, error) {
	var out api.NodeMetaResponse
	_, err := m.client.queryBody(http.MethodPost, "/v1/client/metadata", change, &out, q)
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// Read returns the metadata of a node. An empty node ID means the node of the agent.
func (m *NodeMeta) Read(nodeID string, q *QueryOptions) (*api.NodeMetaResponse, error) {
	out, _, err := get[*api.NodeMetaResponse](m.client, clientPath("metadata", nodeID), q)
	return out, err
}
