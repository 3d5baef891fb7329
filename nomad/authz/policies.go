package authz

import (
	"iter"
	"maps"
	"sync"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// maxRights is the maximum number of cached rights.
const maxRights = 8192

// policies converts tokens and workloads to rights. Results are cached until a policy or a role
// changes or the store is replaced.
//
//	token ─▶ policies of the token and of its roles ─┐
//	workload ─▶ policies for its job, group, task ───┼─▶ texts, parsed ─▶ rights
//	none ─▶ the policy "anonymous" ──────────────────┘
type policies struct {
	mu     sync.RWMutex
	store  *state.Store
	index  uint64
	rights map[any]*acl.ACL
}

// tokenKey and workloadKey are the cache keys.
type tokenKey struct {
	accessor string
	index    uint64 // modify index of the token
}

type workloadKey acl.Workload

// ofToken returns the rights of a token. The error is apierror.ErrPermissionDenied if a policy of the
// token cannot be parsed, since it may contain a denial.
func (p *policies) ofToken(store *state.Store, t *rbac.Token) (*acl.ACL, error) {
	if t.Management() {
		return acl.Everything, nil
	}
	return p.get(store, tokenKey{t.AccessorID, t.ModifyIndex}, func(snap *state.Snapshot) iter.Seq[*rbac.Policy] {
		return named(snap, namesOf(snap, t))
	})
}

// named returns the existing policies with the names.
func named(snap *state.Snapshot, names iter.Seq[string]) iter.Seq[*rbac.Policy] {
	return func(yield func(*rbac.Policy) bool) {
		for name := range names {
			if policy := snap.ACLPolicy(nil, name); policy != nil && !yield(policy) {
				return
			}
		}
	}
}

// namesOf returns the policy names of a token and of its roles, without duplicates.
func namesOf(snap *state.Snapshot, t *rbac.Token) iter.Seq[string] {
	names := map[string]bool{}
	for _, name := range t.Policies {
		names[name] = true
	}
	for _, link := range t.Roles {
		role := snap.ACLRole(nil, link.ID)
		if role == nil {
			continue
		}
		for _, l := range role.Policies {
			names[l.Name] = true
		}
	}
	return maps.Keys(names)
}

// ofWorkload returns the rights of a workload by policies, without the rights on its own variables.
// Errors are those of ofToken.
func (p *policies) ofWorkload(store *state.Store, w *acl.Workload) (*acl.ACL, error) {
	return p.get(store, workloadKey(*w), func(snap *state.Snapshot) iter.Seq[*rbac.Policy] { return admitting(snap, w) })
}

// admitting returns the policies that apply to a workload.
func admitting(snap *state.Snapshot, w *acl.Workload) iter.Seq[*rbac.Policy] {
	return func(yield func(*rbac.Policy) bool) {
		for policy := range snap.ACLPoliciesByJob(nil, w.Namespace, w.Job) {
			if policy.JobACL.Admits(w.Namespace, w.Job, w.Group, w.Task) && !yield(policy) {
				return
			}
		}
	}
}

func (p *policies) get(store *state.Store, key any, find func(*state.Snapshot) iter.Seq[*rbac.Policy]) (*acl.ACL, error) {
	snap := store.Snapshot()
	index := snap.TableIndex(state.TableACLPolicy, state.TableACLRoles)
	p.mu.RLock()
	kept, ok := p.rights[key]
	ok = ok && p.store == store && p.index == index
	p.mu.RUnlock()
	if ok {
		return kept, nil
	}
	rights, err := read(find(snap))
	if err == nil {
		p.keep(store, index, key, rights)
	}
	return rights, err
}

// keep caches rights and drops those of older policies. Another call may have seen newer ones.
func (p *policies) keep(store *state.Store, index uint64, key any, rights *acl.ACL) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.store != store || p.index < index || len(p.rights) >= maxRights {
		p.store, p.index, p.rights = store, index, map[any]*acl.ACL{}
	}
	if p.index == index {
		p.rights[key] = rights
	}
}

func read(found iter.Seq[*rbac.Policy]) (*acl.ACL, error) {
	var parsed []*acl.Policy
	for policy := range found {
		p, err := parse(policy)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, p)
	}
	return acl.New(false, parsed...), nil
}

func parse(policy *rbac.Policy) (*acl.Policy, error) {
	p, err := acl.Parse(policy.Rules)
	if err != nil {
		return nil, apierror.Denied("policy %q cannot be parsed: write it again", policy.Name)
	}
	p.Name = policy.Name
	return p, nil
}
