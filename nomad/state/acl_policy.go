package state

import (
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

var aclPolicies = &table[nomad.ACLPolicy]{
	name:   TableACLPolicy,
	events: true,
	id:     func(p *nomad.ACLPolicy) key { return keyOf(p.Name) },
	indexes: []index[nomad.ACLPolicy]{
		{name: "job", key: func(p *nomad.ACLPolicy) key {
			if p.JobACL == nil {
				return nil
			}
			return keyOf(p.JobACL.Namespace, p.JobACL.JobID)
		}},
	},
}

// ACLPolicy returns the policy, nil when there is none.
func (s *Snapshot) ACLPolicy(ws memdb.WatchSet, name string) *nomad.ACLPolicy {
	return aclPolicies.get(s.tx, ws, keyOf(name))
}

// ACLPolicies returns every policy, by name.
func (s *Snapshot) ACLPolicies(ws memdb.WatchSet) iter.Seq[*nomad.ACLPolicy] {
	return aclPolicies.all(s.tx, ws)
}

// ACLPoliciesByPrefix returns the policies whose name begins with prefix, by name.
func (s *Snapshot) ACLPoliciesByPrefix(ws memdb.WatchSet, prefix string) iter.Seq[*nomad.ACLPolicy] {
	return aclPolicies.prefixed(s.tx, ws, primary, prefixOf(prefix))
}

// ACLPoliciesByJob returns the policies that are for workloads of exactly this job, and
// those for all workloads of its namespace. Whether one is for a group or task is for
// the caller to see (JobACL.Admits).
func (s *Snapshot) ACLPoliciesByJob(ws memdb.WatchSet, namespace, job string) iter.Seq[*nomad.ACLPolicy] {
	all := aclPolicies.by(s.tx, ws, "job", keyOf(namespace, ""))
	if job == "" {
		return all
	}
	own := aclPolicies.by(s.tx, ws, "job", keyOf(namespace, job))
	return func(yield func(*nomad.ACLPolicy) bool) {
		for _, seq := range []iter.Seq[*nomad.ACLPolicy]{own, all} {
			for p := range seq {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// UpsertACLPolicies stores policies.
func (s *Store) UpsertACLPolicies(index uint64, req *nomad.ACLPolicyUpsertRequest) (*Changes, error) {
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
			stored.CreateIndex, stored.ModifyIndex = t.index, t.index
			if old := aclPolicies.get(t, nil, keyOf(p.Name)); old != nil {
				stored.CreateIndex = old.CreateIndex
			}
			aclPolicies.put(t, &stored)
		}
		return nil
	})
}

// DeleteACLPolicies removes policies. Tokens and roles keep their names: what is called
// so later is theirs again, as the operator who deletes one is told. One that is gone
// already is no error.
func (s *Store) DeleteACLPolicies(index uint64, req *nomad.ACLPolicyDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, name := range req.Names {
			if p := aclPolicies.get(t, nil, keyOf(name)); p != nil {
				aclPolicies.delete(t, p)
			}
		}
		return nil
	})
}
