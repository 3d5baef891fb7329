package authz

import (
	"iter"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Rights tells what others than the caller may do, as a snapshot has it: they are read as
// those of a caller are. It is for one goroutine.
type Rights struct {
	snap *state.Snapshot
	kept map[string]*acl.ACL // by the names of the policies
}

// RightsIn returns the rights of a snapshot.
func RightsIn(snap *state.Snapshot) *Rights {
	return &Rights{snap: snap, kept: map[string]*acl.ACL{}}
}

// OfToken returns what a token may do, whether or not its time is over. The error says
// that a policy cannot be read: then the token may do nothing.
func (r *Rights) OfToken(t *nomad.ACLToken) (*acl.ACL, error) {
	if t.Management() {
		return everything, nil
	}
	return r.OfPolicies(slices.Collect(namesOf(r.snap, t))...)
}

// OfRole returns what a role lets its tokens do.
func (r *Rights) OfRole(role *nomad.ACLRole) (*acl.ACL, error) {
	var names []string
	for _, l := range role.Policies {
		names = append(names, l.Name)
	}
	return r.OfPolicies(names...)
}

// OfPolicies returns what policies allow together; those that there are not allow nothing.
func (r *Rights) OfPolicies(names ...string) (*acl.ACL, error) {
	slices.Sort(names)
	return r.get(strings.Join(names, " "), named(r.snap, slices.Values(names)))
}

// OfWorkload returns what policies let a workload do, beyond its own variables.
func (r *Rights) OfWorkload(w *acl.Workload) (*acl.ACL, error) {
	var names []string
	for p := range admitting(r.snap, w) {
		names = append(names, p.Name)
	}
	return r.OfPolicies(names...)
}

func (r *Rights) get(key string, found iter.Seq[*nomad.ACLPolicy]) (*acl.ACL, error) {
	if kept, ok := r.kept[key]; ok {
		return kept, nil
	}
	rights, err := read(found)
	if err == nil {
		r.kept[key] = rights
	}
	return rights, err
}
