package message

import "time"

// ACLCreateClientIntroductionTokenRequest is the request of ACL.CreateClientIntroductionToken. The default pool is
// "default". Without a name, any node of the pool may use the token. A TTL of zero selects the server's default.
// A TTL above the server's maximum is reduced to it.
type ACLCreateClientIntroductionTokenRequest struct {
	TTL      time.Duration
	NodeName string
	NodePool string
	// Uses is the number of nodes that the token admits; zero means one (open-nomad only).
	Uses int
	WriteRequest
}

// ACLCreateClientIntroductionTokenResponse is the reply of ACL.CreateClientIntroductionToken.
type ACLCreateClientIntroductionTokenResponse struct {
	JWT string
}
