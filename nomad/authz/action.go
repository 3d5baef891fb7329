package authz

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// IsLeader reports whether the caller is the leader itself.
func IsLeader(id *rbac.AuthenticatedIdentity) bool {
	return id.ACLToken != nil && id.ACLToken.AccessorID == LeaderAccessor
}

// NodeID returns the ID of the calling node, or "" for other callers.
func NodeID(id *rbac.AuthenticatedIdentity) string {
	if id.ClientID != "" {
		return id.ClientID
	}
	if id.Claims != nil && id.Claims.NodeIdentityClaims != nil {
		return id.Claims.NodeIdentityClaims.NodeID
	}
	return ""
}

// SameNode rejects every caller except the node itself.
func SameNode(id *rbac.AuthenticatedIdentity, node string) error {
	if node == "" || NodeID(id) != node {
		return apierror.ErrPermissionDenied
	}
	return nil
}

// OwnAlloc rejects every caller except the node of the allocation.
func OwnAlloc(id *rbac.AuthenticatedIdentity, alloc *nomad.Allocation) error {
	return SameNode(id, alloc.NodeID)
}
