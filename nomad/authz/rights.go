package authz

import (
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Rights returns the rights of tokens, roles and workloads other than the caller, from a snapshot.
// It is not safe for concurrent use.
type Rights struct {
	snap   *state.Snapshot
	kept   map[string]*acl.ACL // by the names of the policies
	parsed map[string]*acl.Policy
}

// RightsIn returns the Rights of a snapshot.
func RightsIn(snap *state.Snapshot) *Rights {
	return &Rights{snap: snap, kept: map[string]*acl.ACL{}, parsed: map[string]*acl.Policy{}}
}

// OfToken returns the rights of a token, expired or not. The error means that a policy cannot be
// parsed: the token then has no rights.
func (r *Rights) OfToken(t *rbac.Token) (*acl.ACL, error) {
	if t.Management() {
		return acl.Everything, nil
	}
	return r.OfPolicies(slices.Collect(namesOf(r.snap, t))...)
}

// OfRole returns the rights that a role grants to its tokens.
func (r *Rights) OfRole(role *rbac.Role) (*acl.ACL, error) {
	var names []string
	for _, l := range role.Policies {
		names = append(names, l.Name)
	}
	return r.OfPolicies(names...)
}

// OfPolicies returns the combined rights of policies. Missing policies grant nothing.
func (r *Rights) OfPolicies(names ...string) (*acl.ACL, error) {
	slices.Sort(names)
	key := strings.Join(names, " ")
	if kept, ok := r.kept[key]; ok {
		return kept, nil
	}
	var found []*acl.Policy
	for policy := range named(r.snap, slices.Values(names)) {
		p := r.parsed[policy.Name]
		if p == nil {
			var err error
			if p, err = parse(policy); err != nil {
				return nil, err
			}
			r.parsed[policy.Name] = p
		}
		found = append(found, p)
	}
	r.kept[key] = acl.New(false, found...)
	return r.kept[key], nil
}

// OfWorkload returns the rights of a workload by policies, without those on its own variables.
func (r *Rights) OfWorkload(w *acl.Workload) (*acl.ACL, error) {
	var names []string
	for p := range admitting(r.snap, w) {
		names = append(names, p.Name)
	}
	return r.OfPolicies(names...)
}
