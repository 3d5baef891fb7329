package state

import (
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var aclRoles = &table.Table[rbac.Role]{
	Name:   TableACLRoles,
	Events: true,
	ID:     func(r *rbac.Role) table.Key { return table.KeyOf(r.ID) },
	Indexes: []table.Index[rbac.Role]{
		{Name: "name", Key: func(r *rbac.Role) table.Key { return table.KeyOf(r.Name) }},
	},
}

// ACLRole returns the role with the ID, or nil if there is none. Links to policies that no longer
// exist are left out.
func (s *Snapshot) ACLRole(ws memdb.WatchSet, id string) *rbac.Role {
	return s.linkedRole(ws, aclRoles.Get(s.tx, ws, table.KeyOf(id)))
}

// ACLRoleByName returns the role with the name, as ACLRole does.
func (s *Snapshot) ACLRoleByName(ws memdb.WatchSet, name string) *rbac.Role {
	for r := range aclRoles.By(s.tx, ws, "name", table.KeyOf(name)) {
		return s.linkedRole(ws, r)
	}
	return nil
}

// ACLRoles returns every role, by ID.
func (s *Snapshot) ACLRoles(ws memdb.WatchSet) iter.Seq[*rbac.Role] {
	return linked(ws, aclRoles.All(s.tx, ws), s.linkedRole)
}

// ACLRolesByPrefix returns the roles whose ID begins with prefix, by ID.
func (s *Snapshot) ACLRolesByPrefix(ws memdb.WatchSet, prefix string) iter.Seq[*rbac.Role] {
	return linked(ws, aclRoles.Prefixed(s.tx, ws, table.Primary, table.PrefixOf(prefix)), s.linkedRole)
}

// linkedRole returns the role without links to policies that no longer exist. It copies the role
// only if there are such links.
func (s *Snapshot) linkedRole(ws memdb.WatchSet, r *rbac.Role) *rbac.Role {
	if r == nil {
		return nil
	}
	links := make([]*rbac.RolePolicyLink, 0, len(r.Policies))
	for _, l := range r.Policies {
		if l != nil && s.ACLPolicy(ws, l.Name) != nil {
			links = append(links, l)
		}
	}
	if len(links) == len(r.Policies) {
		return r
	}
	out := *r
	out.Policies = links
	return &out
}

// UpsertACLRoles stores roles. Role names are unique. The policies of a role must exist unless
// the request sets AllowMissingPolicies.
func (s *Store) UpsertACLRoles(index uint64, req *message.ACLRolesUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, r := range req.ACLRoles {
			if r == nil || r.ID == "" || r.Name == "" {
				return fmt.Errorf("upsert ACL roles: missing role ID or name")
			}
			if err := t.roleFits(r, req.AllowMissingPolicies); err != nil {
				return fmt.Errorf("upsert ACL role %q: %w", r.Name, err)
			}
			stored := *r
			if len(stored.Hash) == 0 {
				stored.SetHash()
			}
			stored.CreateIndex, stored.ModifyIndex = t.Index, t.Index
			if old := aclRoles.Get(t, nil, table.KeyOf(r.ID)); old != nil {
				stored.CreateIndex = old.CreateIndex
			}
			aclRoles.Put(t.Txn, &stored)
		}
		return nil
	})
}

// roleFits returns an error if another role has the name, or if a policy of the role does not
// exist. missing allows policies that do not exist.
func (t *txn) roleFits(r *rbac.Role, missing bool) error {
	for other := range aclRoles.By(t, nil, "name", table.KeyOf(r.Name)) {
		if other.ID != r.ID {
			return fmt.Errorf("role %s already has this name", other.ID)
		}
	}
	for _, l := range r.Policies {
		if l == nil {
			return fmt.Errorf("missing policy name")
		}
		if !missing && aclPolicies.Get(t, nil, table.KeyOf(l.Name)) == nil {
			return fmt.Errorf("policy %q does not exist", l.Name)
		}
	}
	return nil
}

// DeleteACLRoles removes roles. Tokens with such a role lose its policies. If one of the roles
// does not exist, it returns an error and removes nothing.
func (s *Store) DeleteACLRoles(index uint64, req *message.ACLRolesDeleteByIDRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		return deleteAll(t, aclRoles, req.ACLRoleIDs, apierror.ErrACLRoleNotFound)
	})
}
