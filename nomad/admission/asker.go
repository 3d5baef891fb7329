package admission

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Asker is who asks for a write of a job. The zero Asker has no rights.
type Asker struct {
	access *rpc.Access // of the caller; nil for the servers
	author *nomad.Job  // the registered version whose author's rights also count, or nil
	dry    bool        // nothing will be written
}

// Caller is a caller that submits a job.
func Caller(a *rpc.Access) Asker { return Asker{access: a} }

// Planner is a caller that asks what would happen to a job.
func Planner(a *rpc.Access) Asker { return Asker{access: a, dry: true} }

// For is a caller that starts or scales a registered version of a job. It must have the rights that every caller needs.
// For the others, the rights of the version's author count too.
func For(a *rpc.Access, version *nomad.Job) Asker { return Asker{access: a, author: version} }

// Author is the servers, with the rights of the author of a registered version.
func Author(version *nomad.Job) Asker { return Asker{author: version} }

// allow returns an error if the asker lacks a right.
func (w Asker) allow(n need) error {
	switch {
	case w.access != nil && w.access.Allows(n.right):
		return w.access.Need(n.right)
	case w.author != nil && (w.access == nil || !n.ofEveryCaller) && granted(w.author, n):
		return nil
	}
	return fmt.Errorf("%s: %w", n.why, rpc.Denied(n.right))
}

// submits reports whether the job was written by the caller, and not derived from a registered one.
func (w Asker) submits() bool { return w.author == nil }

// isManagement reports whether the asker may register jobs while registration is closed.
func (w Asker) isManagement() bool {
	if w.access != nil {
		return !w.access.Disabled && w.access.IsManagement()
	}
	return w.author != nil && w.author.Registrant != nil && w.author.Registrant.Management
}

// granted reports whether the author of a version had a right. What the version itself needs was checked when it was
// registered, also by versions of this project that stored no rights.
func granted(version *nomad.Job, n need) bool {
	if r := version.Registrant; r != nil && (r.Management || slices.Contains(r.Rights, n.right.String())) {
		return true
	}
	return slices.ContainsFunc(needsOf(version), func(own need) bool { return own.right.String() == n.right.String() })
}

// registrant returns the rights to store with a job: those that it or an earlier version of it needs, and the asker has.
// The earlier versions are those that a deployment of the job may be reverted to. It is nil if there are none.
func registrant(who Asker, snap *state.Snapshot, job *nomad.Job) *nomad.Registrant {
	if who.isManagement() {
		return &nomad.Registrant{Management: true}
	}
	needs := needsOf(job)
	for _, v := range snap.JobVersions(nil, job.Namespace, job.ID) {
		needs = append(needs, needsOf(v)...)
	}
	var out nomad.Registrant
	for _, n := range needs {
		if right := n.right.String(); !slices.Contains(out.Rights, right) && who.allow(n) == nil {
			out.Rights = append(out.Rights, right)
		}
	}
	if len(out.Rights) == 0 {
		return nil
	}
	slices.Sort(out.Rights)
	return &out
}
