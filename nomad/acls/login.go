package acls

import "github.com/open-nomad/open-nomad/nomad"

// ACLLoginRequest is the request of ACL.Login.
type LoginRequest struct {
	AuthMethodName string
	LoginToken     string
	nomad.WriteRequest
}

// ACLLoginResponse is the reply of ACL.Login and ACL.OIDCCompleteAuth.
type LoginResponse struct {
	ACLToken *Token
	nomad.WriteMeta
}

// ACLOIDCAuthURLRequest is the request of ACL.OIDCAuthURL.
type OIDCAuthURLRequest struct {
	AuthMethodName string
	RedirectURI    string
	ClientNonce    string
	nomad.WriteRequest
}

// ACLOIDCAuthURLResponse is the reply of ACL.OIDCAuthURL.
type OIDCAuthURLResponse struct {
	AuthURL string
}

// ACLOIDCCompleteAuthRequest is the request of ACL.OIDCCompleteAuth.
type OIDCCompleteAuthRequest struct {
	AuthMethodName string
	ClientNonce    string
	State          string
	Code           string
	Iss            string
	RedirectURI    string
	nomad.WriteRequest
}
