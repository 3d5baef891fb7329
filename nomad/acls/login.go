package acls

import "github.com/open-nomad/open-nomad/nomad"

// LoginRequest is the request of ACL.Login.
type LoginRequest struct {
	AuthMethodName string
	LoginToken     string
	nomad.WriteRequest
}

// LoginResponse is the reply of ACL.Login and ACL.OIDCCompleteAuth.
type LoginResponse struct {
	ACLToken *Token
	nomad.WriteMeta
}

// OIDCAuthURLRequest is the request of ACL.OIDCAuthURL.
type OIDCAuthURLRequest struct {
	AuthMethodName string
	RedirectURI    string
	ClientNonce    string
	nomad.WriteRequest
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
	nomad.WriteRequest
}
