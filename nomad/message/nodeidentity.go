package message

// NodeIdentityGetReq is the request of NodeIdentity.Get.
type NodeIdentityGetReq struct {
	NodeID string
	QueryOptions
}

// NodeIdentityGetResp is the reply of NodeIdentity.Get. It contains the claims of the node's token by name. The node
// does not verify the token.
type NodeIdentityGetResp struct {
	Claims map[string]any
}

// NodeIdentityRenewReq is the request of NodeIdentity.Renew. It makes the node request a new token in its next
// heartbeat.
type NodeIdentityRenewReq struct {
	NodeID string
	QueryOptions
}

// NodeIdentityRenewResp is the reply of NodeIdentity.Renew.
type NodeIdentityRenewResp struct{}

// NodeSessionResponse is the reply of NodeIdentity.Session: the session ID of the node's agent.
type NodeSessionResponse struct {
	ID string
	QueryMeta
}
