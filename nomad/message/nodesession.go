package message

// NodeSessionResponse is the reply of NodeIdentity.Session: the session ID of the node's agent.
type NodeSessionResponse struct {
	ID string
	QueryMeta
}
