package message

import "github.com/open-nomad/open-nomad/nomad"

// ACLWhoAmIResponse is the reply of ACL.WhoAmI.
type ACLWhoAmIResponse struct {
	Identity *nomad.AuthenticatedIdentity
	QueryMeta
}
