package authz

import (
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Rights tells what others than the caller may do, as a snapshot has it: they are read as
// those of a caller are. It is for one goroutine.
type Rights struct {
	snap   *state.Snapshot
	kept   map[string]*acl.ACL // by the names of the policies
	parsed map[string]*acl.Policy
}

// RightsIn returns the rights of a snapshot.
func RightsIn(snap *state.Snapshot) *Rights {
	return &Rights{snap: snap, kept: map[string]*acl.ACL{}, parsed: map[string]*acl.Policy{}}
}

// OfToken returns what a token may do, whether or not its time is over. The error says
// that a policy cannot be read: then the token may do nothing.
func (r *Rights) OfToken(t *acls.Token) (*acl.ACL, error) {
	if t.Management() {
		return acl.Everything, nil
	}
	return r.OfPolicies(slices.Collect(namesOf(r.snap, t))...)
}

// OfRole returns what a role lets its tokens do.
func (r *Rights) OfRole(role *acls.Role) (*acl.ACL, error) {
	var names []string
	for _, l := range role.Policies {
		names = append(names, l.Name)
	}
	return r.OfPolicies(names...)
}

// OfPolicies returns what policies allow together; those that there are not allow nothing.
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

// OfWorkload returns what policies let a workload do, beyond its own variables.
func (r *Rights) OfWorkload(w *acl.Workload) (*acl.ACL, error) {
	var names []string
	for p := range admitting(r.snap, w) {
		names = append(names, p.Name)
	}
	return r.OfPolicies(names...)
}
