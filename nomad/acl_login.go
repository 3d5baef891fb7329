package nomad

// ACLLoginRequest is the request of ACL.Login.
type ACLLoginRequest struct {
	AuthMethodName string
	LoginToken     string
	WriteRequest
}

// ACLLoginResponse is the reply of ACL.Login and ACL.OIDCCompleteAuth.
type ACLLoginResponse struct {
	ACLToken *ACLToken
	WriteMeta
}

// ACLOIDCAuthURLRequest is the request of ACL.OIDCAuthURL.
type ACLOIDCAuthURLRequest struct {
	AuthMethodName string
	RedirectURI    string
	ClientNonce    string
	WriteRequest
}

// ACLOIDCAuthURLResponse is the reply of ACL.OIDCAuthURL.
type ACLOIDCAuthURLResponse struct {
	AuthURL string
}

// ACLOIDCCompleteAuthRequest is the request of ACL.OIDCCompleteAuth.
type ACLOIDCCompleteAuthRequest struct {
	AuthMethodName string
	ClientNonce    string
	State          string
	Code           string
	Iss            string
	RedirectURI    string
	WriteRequest
}
