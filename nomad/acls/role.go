package acls

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Role is a named set of policies. A change of the role affects all tokens that have it.
type Role struct {
	ID          string
	Name        string
	Description string
	Policies    []*RolePolicyLink
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// RolePolicyLink names a policy of a role.
type RolePolicyLink struct {
	Name string
}

// Canonicalize sets the ID of a new role and removes duplicate policy links.
func (r *Role) Canonicalize() {
	if r.ID == "" {
		r.ID = nomad.NewID()
	}
	seen := map[string]bool{}
	r.Policies = slices.DeleteFunc(slices.Clone(r.Policies), func(l *RolePolicyLink) bool {
		twice := l != nil && seen[l.Name]
		if l != nil {
			seen[l.Name] = true
		}
		return twice
	})
}

// Validate rejects an invalid role.
func (r *Role) Validate() error {
	switch {
	case !aclName.MatchString(r.Name):
		return fmt.Errorf("invalid role name %q: use 1 to 128 letters, digits and '-'", r.Name)
	case len(r.Description) > maxDescription:
		return fmt.Errorf("the description of role %q has %d bytes: the limit is %d", r.Name, len(r.Description), maxDescription)
	case len(r.Policies) == 0:
		return fmt.Errorf("role %q needs at least one policy", r.Name)
	}
	for _, l := range r.Policies {
		if l == nil || !aclName.MatchString(l.Name) {
			return fmt.Errorf("role %q has a policy with an invalid name", r.Name)
		}
	}
	return nil
}

// SetHash computes the digest of the fields that an operator can set. It stores the digest and returns it.
func (r *Role) SetHash() []byte {
	var names []string
	for _, l := range r.Policies {
		if l != nil {
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	r.Hash = newDigest("role").text(r.Name, r.Description).list(names).sum()
	return r.Hash
}

// Stub returns the short form of the role for lists.
func (r *Role) Stub() *RoleListStub {
	return &RoleListStub{ID: r.ID, Name: r.Name, Description: r.Description, Policies: r.Policies, Hash: r.Hash,
		CreateIndex: r.CreateIndex, ModifyIndex: r.ModifyIndex}
}

// RoleByIDRequest is the request of ACL.GetRoleByID.
type RoleByIDRequest struct {
	RoleID string
	message.QueryOptions
}

// RoleByIDResponse is the reply of ACL.GetRoleByID.
type RoleByIDResponse struct {
	ACLRole *Role
	message.QueryMeta
}

// RoleByNameRequest is the request of ACL.GetRoleByName.
type RoleByNameRequest struct {
	RoleName string
	message.QueryOptions
}

// RoleByNameResponse is the reply of ACL.GetRoleByName.
type RoleByNameResponse struct {
	ACLRole *Role
	message.QueryMeta
}

// RoleListStub is a role in a list.
type RoleListStub struct {
	ID          string
	Name        string
	Description string
	Policies    []*RolePolicyLink
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// RolesByIDRequest is the request of ACL.GetRolesByID.
type RolesByIDRequest struct {
	ACLRoleIDs []string
	message.QueryOptions
}

// RolesByIDResponse is the reply of ACL.GetRolesByID.
type RolesByIDResponse struct {
	ACLRoles map[string]*Role
	message.QueryMeta
}

// RolesDeleteByIDRequest is the request of ACL.DeleteRolesByID.
type RolesDeleteByIDRequest struct {
	ACLRoleIDs []string
	message.WriteRequest
}

// RolesDeleteByIDResponse is the reply of ACL.DeleteRolesByID.
type RolesDeleteByIDResponse struct {
	message.WriteMeta
}

// RolesListRequest is the request of ACL.ListRoles.
type RolesListRequest struct {
	message.QueryOptions
}

// RolesListResponse is the reply of ACL.ListRoles.
type RolesListResponse struct {
	ACLRoles []*RoleListStub
	message.QueryMeta
}

// RolesUpsertRequest is the request of ACL.UpsertRoles. AllowMissingPolicies is for replication, where a role may arrive
// before its policies.
type RolesUpsertRequest struct {
	ACLRoles             []*Role
	AllowMissingPolicies bool
	message.WriteRequest
}

// RolesUpsertResponse is the reply of ACL.UpsertRoles.
type RolesUpsertResponse struct {
	ACLRoles []*Role
	message.WriteMeta
}
