package authz

import "github.com/open-nomad/open-nomad/nomad"

// IsLeader says whether the caller is the leader itself.
func IsLeader(id *nomad.AuthenticatedIdentity) bool {
	return id.ACLToken != nil && id.ACLToken.AccessorID == LeaderAccessor
}

// NodeID returns the node that the caller is, "" when it is none.
func NodeID(id *nomad.AuthenticatedIdentity) string {
	if id.ClientID != "" {
		return id.ClientID
	}
	if id.Claims != nil && id.Claims.NodeIdentityClaims != nil {
		return id.Claims.NodeIdentityClaims.NodeID
	}
	return ""
}

// SameNode refuses every caller but the node itself.
func SameNode(id *nomad.AuthenticatedIdentity, node string) error {
	if node == "" || NodeID(id) != node {
		return nomad.ErrPermissionDenied
	}
	return nil
}

// OwnAlloc refuses every caller but the node that the allocation was placed on.
func OwnAlloc(id *nomad.AuthenticatedIdentity, alloc *nomad.Allocation) error {
	return SameNode(id, alloc.NodeID)
}
