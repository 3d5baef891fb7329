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

var aclAuthMethods = &table.Table[rbac.AuthMethod]{
	Name:   TableACLAuthMethods,
	Events: true,
	ID:     func(m *rbac.AuthMethod) table.Key { return table.KeyOf(m.Name) },
	Indexes: []table.Index[rbac.AuthMethod]{
		{Name: "default", Key: func(m *rbac.AuthMethod) table.Key {
			if !m.Default {
				return nil
			}
			return table.KeyOf(m.Type)
		}},
	},
}

var aclBindingRules = &table.Table[rbac.BindingRule]{
	Name:   TableACLBindingRules,
	Events: true,
	ID:     func(r *rbac.BindingRule) table.Key { return table.KeyOf(r.ID) },
	Indexes: []table.Index[rbac.BindingRule]{
		{Name: "method", Key: func(r *rbac.BindingRule) table.Key { return table.KeyOf(r.AuthMethod) }},
	},
}

// ACLAuthMethod returns the auth method, or nil if there is none.
func (s *Snapshot) ACLAuthMethod(ws memdb.WatchSet, name string) *rbac.AuthMethod {
	return aclAuthMethods.Get(s.tx, ws, table.KeyOf(name))
}

// ACLAuthMethods returns every auth method, by name.
func (s *Snapshot) ACLAuthMethods(ws memdb.WatchSet) iter.Seq[*rbac.AuthMethod] {
	return aclAuthMethods.All(s.tx, ws)
}

// ACLDefaultAuthMethod returns the default auth method of a type, or nil if the type has none.
func (s *Snapshot) ACLDefaultAuthMethod(ws memdb.WatchSet, kind string) *rbac.AuthMethod {
	for m := range aclAuthMethods.By(s.tx, ws, "default", table.KeyOf(kind)) {
		return m
	}
	return nil
}

// ACLBindingRule returns the binding rule, or nil if there is none.
func (s *Snapshot) ACLBindingRule(ws memdb.WatchSet, id string) *rbac.BindingRule {
	return aclBindingRules.Get(s.tx, ws, table.KeyOf(id))
}

// ACLBindingRules returns every binding rule, by ID.
func (s *Snapshot) ACLBindingRules(ws memdb.WatchSet) iter.Seq[*rbac.BindingRule] {
	return aclBindingRules.All(s.tx, ws)
}

// ACLBindingRulesByMethod returns the binding rules of an auth method, by ID.
func (s *Snapshot) ACLBindingRulesByMethod(ws memdb.WatchSet, method string) iter.Seq[*rbac.BindingRule] {
	return aclBindingRules.By(s.tx, ws, "method", table.KeyOf(method))
}

// UpsertACLAuthMethods stores auth methods. Each type has at most one default method.
func (s *Store) UpsertACLAuthMethods(index uint64, req *message.ACLAuthMethodUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, m := range req.AuthMethods {
			if m == nil || m.Name == "" {
				return fmt.Errorf("upsert ACL auth methods: missing method name")
			}
			for other := range aclAuthMethods.By(t, nil, "default", table.KeyOf(m.Type)) {
				if m.Default && other.Name != m.Name {
					return fmt.Errorf("upsert ACL auth method %q: %q is already the default of type %s", m.Name, other.Name, m.Type)
				}
			}
			stored := *m
			if len(stored.Hash) == 0 {
				stored.SetHash()
			}
			stored.CreateIndex, stored.ModifyIndex = t.Index, t.Index
			if old := aclAuthMethods.Get(t, nil, table.KeyOf(m.Name)); old != nil {
				stored.CreateIndex, stored.CreateTime = old.CreateIndex, old.CreateTime
			}
			aclAuthMethods.Put(t.Txn, &stored)
		}
		return nil
	})
}

// DeleteACLAuthMethods removes auth methods and their binding rules. Otherwise a later method
// with the same name would inherit the rules. If one of the methods does not exist, it returns an
// error and removes nothing.
func (s *Store) DeleteACLAuthMethods(index uint64, req *message.ACLAuthMethodDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if err := deleteAll(t, aclAuthMethods, req.Names, apierror.ErrACLAuthMethodNotFound); err != nil {
			return err
		}
		for _, name := range req.Names {
			for r := range aclBindingRules.By(t, nil, "method", table.KeyOf(name)) {
				aclBindingRules.Delete(t.Txn, r)
			}
		}
		return nil
	})
}

// UpsertACLBindingRules stores binding rules. Their auth methods must exist unless the request
// sets AllowMissingAuthMethods.
func (s *Store) UpsertACLBindingRules(index uint64, req *message.ACLBindingRulesUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, r := range req.ACLBindingRules {
			if r == nil || r.ID == "" {
				return fmt.Errorf("upsert ACL binding rules: missing rule ID")
			}
			if !req.AllowMissingAuthMethods && aclAuthMethods.Get(t, nil, table.KeyOf(r.AuthMethod)) == nil {
				return fmt.Errorf("upsert ACL binding rule %s: auth method %q does not exist", r.ID, r.AuthMethod)
			}
			stored := *r
			if len(stored.Hash) == 0 {
				stored.SetHash()
			}
			stored.CreateIndex, stored.ModifyIndex = t.Index, t.Index
			if old := aclBindingRules.Get(t, nil, table.KeyOf(r.ID)); old != nil {
				stored.CreateIndex, stored.CreateTime = old.CreateIndex, old.CreateTime
			}
			aclBindingRules.Put(t.Txn, &stored)
		}
		return nil
	})
}

// DeleteACLBindingRules removes binding rules. If one of them does not exist, it returns an error
// and removes nothing.
func (s *Store) DeleteACLBindingRules(index uint64, req *message.ACLBindingRulesDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		return deleteAll(t, aclBindingRules, req.ACLBindingRuleIDs, apierror.ErrACLBindingRuleNotFound)
	})
}
