package message

import "github.com/open-nomad/open-nomad/nomad/rbac"

// ACLTokenBootstrapRequest is the request of ACL.Bootstrap. With rbac.Token, it is the log entry.
type ACLTokenBootstrapRequest struct {
	Token           *rbac.Token
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
	Tokens []*rbac.TokenStub
	QueryMeta
}

// ACLTokenSetRequest is the request of ACL.GetTokens.
type ACLTokenSetRequest struct {
	AccessorIDS []string
	QueryOptions
}

// ACLTokenSetResponse is the reply of ACL.GetTokens.
type ACLTokenSetResponse struct {
	Tokens map[string]*rbac.Token
	QueryMeta
}

// ACLTokenSpecificRequest is the request of ACL.GetToken.
type ACLTokenSpecificRequest struct {
	AccessorID string
	QueryOptions
}

// ACLTokenUpsertRequest is the request of ACL.UpsertTokens.
type ACLTokenUpsertRequest struct {
	Tokens []*rbac.Token
	WriteRequest
}

// ACLTokenUpsertResponse is the reply of ACL.UpsertTokens and ACL.Bootstrap.
type ACLTokenUpsertResponse struct {
	Tokens []*rbac.Token
	WriteMeta
}

// ResolveACLTokenRequest is the request of ACL.ResolveToken.
type ResolveACLTokenRequest struct {
	SecretID string
	QueryOptions
}

// ResolveACLTokenResponse is the reply of ACL.ResolveToken. rbac.Token is nil if the secret is unknown.
type ResolveACLTokenResponse struct {
	Token *rbac.Token
	QueryMeta
}

// SingleACLTokenResponse is the reply of ACL.GetToken.
type SingleACLTokenResponse struct {
	Token *rbac.Token
	QueryMeta
}
