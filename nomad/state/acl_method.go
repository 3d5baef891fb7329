package state

import (
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
)

var aclAuthMethods = &table[acls.AuthMethod]{
	name:   TableACLAuthMethods,
	events: true,
	id:     func(m *acls.AuthMethod) key { return keyOf(m.Name) },
	indexes: []index[acls.AuthMethod]{
		{name: "default", key: func(m *acls.AuthMethod) key {
			if !m.Default {
				return nil
			}
			return keyOf(m.Type)
		}},
	},
}

var aclBindingRules = &table[acls.BindingRule]{
	name:   TableACLBindingRules,
	events: true,
	id:     func(r *acls.BindingRule) key { return keyOf(r.ID) },
	indexes: []index[acls.BindingRule]{
		{name: "method", key: func(r *acls.BindingRule) key { return keyOf(r.AuthMethod) }},
	},
}

// ACLAuthMethod returns the auth method, or nil if there is none.
func (s *Snapshot) ACLAuthMethod(ws memdb.WatchSet, name string) *acls.AuthMethod {
	return aclAuthMethods.get(s.tx, ws, keyOf(name))
}

// ACLAuthMethods returns every auth method, by name.
func (s *Snapshot) ACLAuthMethods(ws memdb.WatchSet) iter.Seq[*acls.AuthMethod] {
	return aclAuthMethods.all(s.tx, ws)
}

// ACLDefaultAuthMethod returns the default auth method of a type, or nil if the type has none.
func (s *Snapshot) ACLDefaultAuthMethod(ws memdb.WatchSet, kind string) *acls.AuthMethod {
	for m := range aclAuthMethods.by(s.tx, ws, "default", keyOf(kind)) {
		return m
	}
	return nil
}

// ACLBindingRule returns the binding rule, or nil if there is none.
func (s *Snapshot) ACLBindingRule(ws memdb.WatchSet, id string) *acls.BindingRule {
	return aclBindingRules.get(s.tx, ws, keyOf(id))
}

// ACLBindingRules returns every binding rule, by ID.
func (s *Snapshot) ACLBindingRules(ws memdb.WatchSet) iter.Seq[*acls.BindingRule] {
	return aclBindingRules.all(s.tx, ws)
}

// ACLBindingRulesByMethod returns the binding rules of an auth method, by ID.
func (s *Snapshot) ACLBindingRulesByMethod(ws memdb.WatchSet, method string) iter.Seq[*acls.BindingRule] {
	return aclBindingRules.by(s.tx, ws, "method", keyOf(method))
}

// UpsertACLAuthMethods stores auth methods. Each type has at most one default method.
func (s *Store) UpsertACLAuthMethods(index uint64, req *acls.AuthMethodUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, m := range req.AuthMethods {
			if m == nil || m.Name == "" {
				return fmt.Errorf("upsert ACL auth methods: a method without a name")
			}
			for other := range aclAuthMethods.by(t, nil, "default", keyOf(m.Type)) {
				if m.Default && other.Name != m.Name {
					return fmt.Errorf("upsert ACL auth method %q: %q is the default of type %s already", m.Name, other.Name, m.Type)
				}
			}
			stored := *m
			if len(stored.Hash) == 0 {
				stored.SetHash()
			}
			stored.CreateIndex, stored.ModifyIndex = t.Index, t.Index
			if old := aclAuthMethods.get(t, nil, keyOf(m.Name)); old != nil {
				stored.CreateIndex, stored.CreateTime = old.CreateIndex, old.CreateTime
			}
			aclAuthMethods.put(t.Txn, &stored)
		}
		return nil
	})
}

// DeleteACLAuthMethods removes auth methods and their binding rules. Otherwise a later method
// with the same name would inherit the rules. If one of the methods does not exist, it returns an
// error and removes nothing.
func (s *Store) DeleteACLAuthMethods(index uint64, req *acls.AuthMethodDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, name := range req.Names {
			m := aclAuthMethods.get(t, nil, keyOf(name))
			if m == nil {
				return fmt.Errorf("%w: %s", nomad.ErrACLAuthMethodNotFound, name)
			}
			aclAuthMethods.delete(t.Txn, m)
			for r := range aclBindingRules.by(t, nil, "method", keyOf(name)) {
				aclBindingRules.delete(t.Txn, r)
			}
		}
		return nil
	})
}

// UpsertACLBindingRules stores binding rules. Their auth methods must exist unless the request
// sets AllowMissingAuthMethods.
func (s *Store) UpsertACLBindingRules(index uint64, req *acls.BindingRulesUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, r := range req.ACLBindingRules {
			if r == nil || r.ID == "" {
				return fmt.Errorf("upsert ACL binding rules: a rule without an ID")
			}
			if !req.AllowMissingAuthMethods && aclAuthMethods.get(t, nil, keyOf(r.AuthMethod)) == nil {
				return fmt.Errorf("upsert ACL binding rule %s: auth method %q does not exist", r.ID, r.AuthMethod)
			}
			stored := *r
			if len(stored.Hash) == 0 {
				stored.SetHash()
			}
			stored.CreateIndex, stored.ModifyIndex = t.Index, t.Index
			if old := aclBindingRules.get(t, nil, keyOf(r.ID)); old != nil {
				stored.CreateIndex, stored.CreateTime = old.CreateIndex, old.CreateTime
			}
			aclBindingRules.put(t.Txn, &stored)
		}
		return nil
	})
}

// DeleteACLBindingRules removes binding rules. If one of them does not exist, it returns an error
// and removes nothing.
func (s *Store) DeleteACLBindingRules(index uint64, req *acls.BindingRulesDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, id := range req.ACLBindingRuleIDs {
			r := aclBindingRules.get(t, nil, keyOf(id))
			if r == nil {
				return fmt.Errorf("%w: %s", nomad.ErrACLBindingRuleNotFound, id)
			}
			aclBindingRules.delete(t.Txn, r)
		}
		return nil
	})
}
