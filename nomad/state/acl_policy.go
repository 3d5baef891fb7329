package state

import (
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var aclPolicies = &table.Table[rbac.Policy]{
	Name:   TableACLPolicy,
	Events: true,
	ID:     func(p *rbac.Policy) table.Key { return table.KeyOf(p.Name) },
	Indexes: []table.Index[rbac.Policy]{
		{Name: "job", Key: func(p *rbac.Policy) table.Key {
			if p.JobACL == nil {
				return nil
			}
			return table.KeyOf(p.JobACL.Namespace, p.JobACL.JobID)
		}},
	},
}

// ACLPolicy returns the policy, or nil if there is none.
func (s *Snapshot) ACLPolicy(ws memdb.WatchSet, name string) *rbac.Policy {
	return aclPolicies.Get(s.tx, ws, table.KeyOf(name))
}

// ACLPolicies returns every policy, by name.
func (s *Snapshot) ACLPolicies(ws memdb.WatchSet) iter.Seq[*rbac.Policy] {
	return aclPolicies.All(s.tx, ws)
}

// ACLPoliciesByPrefix returns the policies whose name begins with prefix, by name.
func (s *Snapshot) ACLPoliciesByPrefix(ws memdb.WatchSet, prefix string) iter.Seq[*rbac.Policy] {
	return aclPolicies.Prefixed(s.tx, ws, table.Primary, table.PrefixOf(prefix))
}

// ACLPoliciesByJob returns the policies that are attached to the job, then those attached to all
// jobs of the namespace. The caller checks the group and the task with JobACL.Admits.
func (s *Snapshot) ACLPoliciesByJob(ws memdb.WatchSet, namespace, job string) iter.Seq[*rbac.Policy] {
	all := aclPolicies.By(s.tx, ws, "job", table.KeyOf(namespace, ""))
	if job == "" {
		return all
	}
	own := aclPolicies.By(s.tx, ws, "job", table.KeyOf(namespace, job))
	return func(yield func(*rbac.Policy) bool) {
		for _, seq := range []iter.Seq[*rbac.Policy]{own, all} {
			for p := range seq {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// UpsertACLPolicies stores policies.
func (s *Store) UpsertACLPolicies(index uint64, req *message.ACLPolicyUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, p := range req.Policies {
			if p == nil || p.Name == "" {
				return fmt.Errorf("upsert ACL policies: missing policy name")
			}
			stored := *p
			stored.RulesJSON = nil
			if len(stored.Hash) == 0 {
				stored.SetHash()
			}
			stored.CreateIndex, stored.ModifyIndex = t.Index, t.Index
			if old := aclPolicies.Get(t, nil, table.KeyOf(p.Name)); old != nil {
				stored.CreateIndex = old.CreateIndex
			}
			aclPolicies.Put(t.Txn, &stored)
		}
		return nil
	})
}

// DeleteACLPolicies removes policies. Policies that do not exist are ignored. Tokens and roles
// keep the name of a deleted policy, so a later policy with that name applies to them.
func (s *Store) DeleteACLPolicies(index uint64, req *message.ACLPolicyDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, name := range req.Names {
			if p := aclPolicies.Get(t, nil, table.KeyOf(name)); p != nil {
				aclPolicies.Delete(t.Txn, p)
			}
		}
		return nil
	})
}
