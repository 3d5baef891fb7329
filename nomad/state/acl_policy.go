package state

import (
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/acls"
)

var aclPolicies = &table[acls.Policy]{
	name:   TableACLPolicy,
	events: true,
	id:     func(p *acls.Policy) key { return keyOf(p.Name) },
	indexes: []index[acls.Policy]{
		{name: "job", key: func(p *acls.Policy) key {
			if p.JobACL == nil {
				return nil
			}
			return keyOf(p.JobACL.Namespace, p.JobACL.JobID)
		}},
	},
}

// ACLPolicy returns the policy, or nil if there is none.
func (s *Snapshot) ACLPolicy(ws memdb.WatchSet, name string) *acls.Policy {
	return aclPolicies.get(s.tx, ws, keyOf(name))
}

// ACLPolicies returns every policy, by name.
func (s *Snapshot) ACLPolicies(ws memdb.WatchSet) iter.Seq[*acls.Policy] {
	return aclPolicies.all(s.tx, ws)
}

// ACLPoliciesByPrefix returns the policies whose name begins with prefix, by name.
func (s *Snapshot) ACLPoliciesByPrefix(ws memdb.WatchSet, prefix string) iter.Seq[*acls.Policy] {
	return aclPolicies.prefixed(s.tx, ws, primary, prefixOf(prefix))
}

// ACLPoliciesByJob returns the policies that are attached to the job, then those attached to all
// jobs of the namespace. The caller checks the group and the task with JobACL.Admits.
func (s *Snapshot) ACLPoliciesByJob(ws memdb.WatchSet, namespace, job string) iter.Seq[*acls.Policy] {
	all := aclPolicies.by(s.tx, ws, "job", keyOf(namespace, ""))
	if job == "" {
		return all
	}
	own := aclPolicies.by(s.tx, ws, "job", keyOf(namespace, job))
	return func(yield func(*acls.Policy) bool) {
		for _, seq := range []iter.Seq[*acls.Policy]{own, all} {
			for p := range seq {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// UpsertACLPolicies stores policies.
func (s *Store) UpsertACLPolicies(index uint64, req *acls.PolicyUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, p := range req.Policies {
			if p == nil || p.Name == "" {
				return fmt.Errorf("upsert ACL policies: a policy without a name")
			}
			stored := *p
			stored.RulesJSON = nil
			if len(stored.Hash) == 0 {
				stored.SetHash()
			}
			stored.CreateIndex, stored.ModifyIndex = t.Index, t.Index
			if old := aclPolicies.get(t, nil, keyOf(p.Name)); old != nil {
				stored.CreateIndex = old.CreateIndex
			}
			aclPolicies.put(t.Txn, &stored)
		}
		return nil
	})
}

// DeleteACLPolicies removes policies. Policies that do not exist are ignored. Tokens and roles
// keep the name of a deleted policy, so a later policy with that name applies to them.
func (s *Store) DeleteACLPolicies(index uint64, req *acls.PolicyDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, name := range req.Names {
			if p := aclPolicies.get(t, nil, keyOf(name)); p != nil {
				aclPolicies.delete(t.Txn, p)
			}
		}
		return nil
	})
}
