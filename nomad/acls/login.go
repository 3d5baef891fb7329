package acls

import "github.com/open-nomad/open-nomad/nomad/message"

// LoginRequest is the request of ACL.Login.
type LoginRequest struct {
	AuthMethodName string
	LoginToken     string
	message.WriteRequest
}

// LoginResponse is the reply of ACL.Login and ACL.OIDCCompleteAuth.
type LoginResponse struct {
	ACLToken *Token
	message.WriteMeta
}

// OIDCAuthURLRequest is the request of ACL.OIDCAuthURL.
type OIDCAuthURLRequest struct {
	AuthMethodName string
	RedirectURI    string
	ClientNonce    string
	message.WriteRequest
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
	message.WriteRequest
}
