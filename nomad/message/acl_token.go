package message

import "github.com/open-nomad/open-nomad/nomad"

// ACLTokenBootstrapRequest is the request of ACL.Bootstrap. With nomad.ACLToken, it is the log entry.
type ACLTokenBootstrapRequest struct {
	Token           *nomad.ACLToken
	ResetIndex      uint64
	BootstrapSecret string
	WriteRequest
}

// ACLTokenDeleteRequest is the request of ACL.DeleteTokens.
type ACLTokenDeleteRequest struct {
	AccessorIDs []string
	WriteRequest
}

// ACLTokenListRequest is the request of ACL.ListTokens.
type ACLTokenListRequest struct {
	GlobalOnly bool
	QueryOptions
}

// ACLTokenListResponse is the reply of ACL.ListTokens.
type ACLTokenListResponse struct {
	Tokens []*nomad.ACLTokenListStub
	QueryMeta
}

// ACLTokenSetRequest is the request of ACL.GetTokens.
type ACLTokenSetRequest struct {
	AccessorIDS []string
	QueryOptions
}

// ACLTokenSetResponse is the reply of ACL.GetTokens.
type ACLTokenSetResponse struct {
	Tokens map[string]*nomad.ACLToken
	QueryMeta
}

// ACLTokenSpecificRequest is the request of ACL.GetToken.
type ACLTokenSpecificRequest struct {
	AccessorID string
	QueryOptions
}

// ACLTokenUpsertRequest is the request of ACL.UpsertTokens.
type ACLTokenUpsertRequest struct {
	Tokens []*nomad.ACLToken
	WriteRequest
}

// ACLTokenUpsertResponse is the reply of ACL.UpsertTokens and ACL.Bootstrap.
type ACLTokenUpsertResponse struct {
	Tokens []*nomad.ACLToken
	WriteMeta
}

// ResolveACLTokenRequest is the request of ACL.ResolveToken.
type ResolveACLTokenRequest struct {
	SecretID string
	QueryOptions
}

// ResolveACLTokenResponse is the reply of ACL.ResolveToken. nomad.ACLToken is nil if the secret is unknown.
type ResolveACLTokenResponse struct {
	Token *nomad.ACLToken
	QueryMeta
}

// SingleACLTokenResponse is the reply of ACL.GetToken.
type SingleACLTokenResponse struct {
	Token *nomad.ACLToken
	QueryMeta
}
