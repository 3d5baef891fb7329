package nomad

import (
	"fmt"
	"slices"
)

// ACLRole is a named set of policies. What tokens that have it may do changes with it.
type ACLRole struct {
	ID          string
	Name        string
	Description string
	Policies    []*ACLRolePolicyLink
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLRolePolicyLink names a policy of a role.
type ACLRolePolicyLink struct {
	Name string
}

// Canonicalize gives a role that is to be made its ID, and drops links that are there
// twice.
func (r *ACLRole) Canonicalize() {
	if r.ID == "" {
		r.ID = NewID()
	}
	seen := map[string]bool{}
	r.Policies = slices.DeleteFunc(slices.Clone(r.Policies), func(l *ACLRolePolicyLink) bool {
		twice := l != nil && seen[l.Name]
		if l != nil {
			seen[l.Name] = true
		}
		return twice
	})
}

// Validate refuses a role that cannot be.
func (r *ACLRole) Validate() error {
	switch {
	case !aclName.MatchString(r.Name):
		return fmt.Errorf("invalid role name %q: 1 to 128 letters, digits and '-'", r.Name)
	case len(r.Description) > maxACLDescription:
		return fmt.Errorf("the description of role %q is %d bytes long, at most %d", r.Name, len(r.Description), maxACLDescription)
	case len(r.Policies) == 0:
		return fmt.Errorf("role %q needs a policy at least", r.Name)
	}
	for _, l := range r.Policies {
		if l == nil || !aclName.MatchString(l.Name) {
			return fmt.Errorf("role %q has a policy without a valid name", r.Name)
		}
	}
	return nil
}

// SetHash computes the digest of what an operator can set, stores and returns it.
func (r *ACLRole) SetHash() []byte {
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

// Stub returns the role for lists.
func (r *ACLRole) Stub() *ACLRoleListStub {
	return &ACLRoleListStub{ID: r.ID, Name: r.Name, Description: r.Description, Policies: r.Policies, Hash: r.Hash,
		CreateIndex: r.CreateIndex, ModifyIndex: r.ModifyIndex}
}

// ACLRoleByIDRequest is the request of ACL.GetRoleByID.
type ACLRoleByIDRequest struct {
	RoleID string
	QueryOptions
}

// ACLRoleByIDResponse is the reply of ACL.GetRoleByID.
type ACLRoleByIDResponse struct {
	ACLRole *ACLRole
	QueryMeta
}

// ACLRoleByNameRequest is the request of ACL.GetRoleByName.
type ACLRoleByNameRequest struct {
	RoleName string
	QueryOptions
}

// ACLRoleByNameResponse is the reply of ACL.GetRoleByName.
type ACLRoleByNameResponse struct {
	ACLRole *ACLRole
	QueryMeta
}

// ACLRoleListStub is a role in a list.
type ACLRoleListStub struct {
	ID          string
	Name        string
	Description string
	Policies    []*ACLRolePolicyLink
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLRolesByIDRequest is the request of ACL.GetRolesByID.
type ACLRolesByIDRequest struct {
	ACLRoleIDs []string
	QueryOptions
}

// ACLRolesByIDResponse is the reply of ACL.GetRolesByID.
type ACLRolesByIDResponse struct {
	ACLRoles map[string]*ACLRole
	QueryMeta
}

// ACLRolesDeleteByIDRequest is the request of ACL.DeleteRolesByID.
type ACLRolesDeleteByIDRequest struct {
	ACLRoleIDs []string
	WriteRequest
}

// ACLRolesDeleteByIDResponse is the reply of ACL.DeleteRolesByID.
type ACLRolesDeleteByIDResponse struct {
	WriteMeta
}

// ACLRolesListRequest is the request of ACL.ListRoles.
type ACLRolesListRequest struct {
	QueryOptions
}

// ACLRolesListResponse is the reply of ACL.ListRoles.
type ACLRolesListResponse struct {
	ACLRoles []*ACLRoleListStub
	QueryMeta
}

// ACLRolesUpsertRequest is the request of ACL.UpsertRoles. AllowMissingPolicies is for
// replication, where a role may come before its policies.
type ACLRolesUpsertRequest struct {
	ACLRoles             []*ACLRole
	AllowMissingPolicies bool
	WriteRequest
}

// ACLRolesUpsertResponse is the reply of ACL.UpsertRoles.
type ACLRolesUpsertResponse struct {
	ACLRoles []*ACLRole
	WriteMeta
}
