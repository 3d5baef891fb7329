package message

import "github.com/open-nomad/open-nomad/nomad/rbac"

// ACLLoginRequest is the request of ACL.Login.
type ACLLoginRequest struct {
	AuthMethodName string
	LoginToken     string
	WriteRequest
}

// ACLLoginResponse is the reply of ACL.Login and ACL.OIDCCompleteAuth.
type ACLLoginResponse struct {
	ACLToken *rbac.Token
	WriteMeta
}

// OIDCAuthURLRequest is the request of ACL.OIDCAuthURL.
type OIDCAuthURLRequest struct {
	AuthMethodName string
	RedirectURI    string
	ClientNonce    string
	WriteRequest
}

// OIDCAuthURLResponse is the reply of ACL.OIDCAuthURL.
type OIDCAuthURLResponse struct {
	AuthURL string
}

// OIDCCompleteAuthRequest is the request of ACL.OIDCCompleteAuth.
type OIDCCompleteAuthRequest struct {
	AuthMethodName string
	ClientNonce    string
	State          string
	Code           string
	Iss            string
	RedirectURI    string
	WriteRequest
}
