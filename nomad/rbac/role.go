package rbac

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
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
func (r *Role) Stub() *RoleStub {
	return &RoleStub{ID: r.ID, Name: r.Name, Description: r.Description, Policies: r.Policies, Hash: r.Hash,
		CreateIndex: r.CreateIndex, ModifyIndex: r.ModifyIndex}
}

// RoleStub is a role in a list.
type RoleStub struct {
	ID          string
	Name        string
	Description string
	Policies    []*RolePolicyLink
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}
