package message

import "github.com/open-nomad/open-nomad/nomad/rbac"

// ACLWhoAmIResponse is the reply of ACL.WhoAmI.
type ACLWhoAmIResponse struct {
	Identity *rbac.AuthenticatedIdentity
	QueryMeta
}
