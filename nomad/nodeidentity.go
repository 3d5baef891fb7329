package nomad

// NodeIdentityGetReq is the request of NodeIdentity.Get.
type NodeIdentityGetReq struct {
	NodeID string
	QueryOptions
}

// NodeIdentityGetResp is the reply of NodeIdentity.Get: the claims of the
// node's token by their names, not verified by the node.
type NodeIdentityGetResp struct {
	Claims map[string]any
}

// NodeIdentityRenewReq is the request of NodeIdentity.Renew: the node's next
// heartbeat asks for a new token.
type NodeIdentityRenewReq struct {
	NodeID string
	QueryOptions
}

// NodeIdentityRenewResp is the reply of NodeIdentity.Renew.
type NodeIdentityRenewResp struct{}
