package api

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
