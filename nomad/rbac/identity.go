package rbac

import (
	"net"

	"github.com/open-nomad/open-nomad/nomad/idtoken"
)

// AuthenticatedIdentity identifies the caller, as determined by the authenticator. It is an ACL token, a workload or node
// (Claims), a node authenticated by its secret (ClientID), or a peer authenticated by its certificate (TLSName). Only
// ACL.WhoAmI sends it.
type AuthenticatedIdentity struct {
	ACLToken *Token
	Claims   *idtoken.Claims
	ClientID string
	TLSName  string
	RemoteIP net.IP
}
