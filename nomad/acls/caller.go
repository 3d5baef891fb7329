package acls

import (
	"net"

	"github.com/open-nomad/open-nomad/nomad"
)

// AuthenticatedIdentity is who calls, as the authenticator found out: a token, a
// workload or node (Claims), a node known by its secret (ClientID), or a peer known
// by its certificate (TLSName). Only ACL.WhoAmI sends it.
type AuthenticatedIdentity struct {
	ACLToken *Token
	Claims   *nomad.IdentityClaims
	ClientID string
	TLSName  string
	RemoteIP net.IP
}

// WhoAmIResponse is the reply of ACL.WhoAmI.
type WhoAmIResponse struct {
	Identity *AuthenticatedIdentity
	nomad.QueryMeta
}
