package authz

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
)

// IsLeader says whether the caller is the leader itself.
func IsLeader(id *acls.AuthenticatedIdentity) bool {
	return id.ACLToken != nil && id.ACLToken.AccessorID == LeaderAccessor
}

// NodeID returns the node that the caller is, "" when it is none.
func NodeID(id *acls.AuthenticatedIdentity) string {
	if id.ClientID != "" {
		return id.ClientID
	}
	if id.Claims != nil && id.Claims.NodeIdentityClaims != nil {
		return id.Claims.NodeIdentityClaims.NodeID
	}
	return ""
}

// SameNode refuses every caller but the node itself.
func SameNode(id *acls.AuthenticatedIdentity, node string) error {
	if node == "" || NodeID(id) != node {
		return nomad.ErrPermissionDenied
	}
	return nil
}

// OwnAlloc refuses every caller but the node that the allocation was placed on.
func OwnAlloc(id *acls.AuthenticatedIdentity, alloc *nomad.Allocation) error {
	return SameNode(id, alloc.NodeID)
}
