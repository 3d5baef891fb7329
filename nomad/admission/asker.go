package admission

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Asker is who asks for a write of a job. The zero Asker has no rights.
type Asker struct {
	access *rpc.Access     // of the caller; nil for the servers
	author *nomad.Job      // the registered version whose author's rights also count, or nil
	rights map[string]bool // of the author
	dry    bool            // nothing will be written
	target *nomad.Job      // the registered version that the caller submits again, or nil
}

// Caller is a caller that submits a job.
func Caller(a *rpc.Access) Asker { return Asker{access: a} }

// Reverter is a caller that submits a registered version again, without having written it.
func Reverter(a *rpc.Access, version *nomad.Job) Asker { return Asker{access: a, target: version} }

// Planner is a caller that asks what would happen to a job.
func Planner(a *rpc.Access) Asker { return Asker{access: a, dry: true} }

// For is a caller that starts or scales a registered version of a job. It must have the rights that every caller needs.
// For the others, the rights of the version's author count too.
func For(a *rpc.Access, version *nomad.Job) Asker {
	return Asker{access: a, author: version, rights: granted(version)}
}

// Author is the servers, with the rights of the author of a registered version.
func Author(version *nomad.Job) Asker { return Asker{author: version, rights: granted(version)} }

// allow returns an error if the asker lacks a right.
func (w Asker) allow(n need) error {
	switch {
	case w.access != nil && w.access.Allows(n.right):
		return w.access.Need(n.right)
	case w.author != nil && (w.access == nil || !n.ofEveryCaller) && w.authorHad(n):
		return nil
	}
	return fmt.Errorf("%s: %w", n.why, rpc.Denied(n.right))
}

// submits reports whether the job was written by the caller, and not derived from a registered one.
func (w Asker) submits() bool { return w.author == nil }

// wrote reports whether the caller wrote the job. Otherwise it is a registered version, or derived from one.
func (w Asker) wrote() bool { return w.submits() && w.target == nil }

// isManagement reports whether the asker may register jobs while registration is closed.
func (w Asker) isManagement() bool {
	if w.access != nil {
		return !w.access.Disabled && w.access.IsManagement()
	}
	return w.author != nil && w.author.Registrant != nil && w.author.Registrant.Management
}

// authorHad reports whether the author had a right.
func (w Asker) authorHad(n need) bool {
	return w.author.Registrant != nil && w.author.Registrant.Management || w.rights[n.right.String()]
}

// granted returns the rights that the author of a version had. What the version itself needs was checked when it was
// registered, also by versions of this project that stored no rights.
func granted(version *nomad.Job) map[string]bool {
	out := map[string]bool{}
	if r := version.Registrant; r != nil {
		for _, right := range r.Rights {
			out[right] = true
		}
	}
	for _, own := range needsOf(version) {
		out[own.right.String()] = true
	}
	return out
}

// registrant returns the rights to store with a job: those that it or an earlier version of it needs, and the asker has.
// The earlier versions are those that a deployment of the job may be reverted to, also after adding privilege to their
// tasks. It is nil if there are none.
func (v *View) registrant(who Asker, job *nomad.Job) *nomad.Registrant {
	if who.isManagement() {
		return &nomad.Registrant{Management: true}
	}
	needs := needsOf(job)
	for _, old := range v.snap.JobVersions(nil, job.Namespace, job.ID) {
		needs = append(needs, needsOf(old)...)
		if slices.ContainsFunc(Places(old), func(p Place) bool { return v.names.Needs(p.Task) != "" }) {
			needs = append(needs, need{right: privilegeIn(job.Namespace)})
		}
	}
	var out nomad.Registrant
	seen := map[string]bool{}
	for _, n := range needs {
		if right := n.right.String(); !seen[right] && who.allow(n) == nil {
			seen[right] = true
			out.Rights = append(out.Rights, right)
		}
	}
	if len(out.Rights) == 0 {
		return nil
	}
	slices.Sort(out.Rights)
	return &out
}
