package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// maxGranted limits the tasks that the warning about added privilege names.
const maxGranted = 16

// grant sets Privileged of the tasks that need privilege, if the asker may run them. It returns an error if the asker
// lacks the right, unless a node with the legacy behaviour runs the task as it is. If the line is demanded, it does
// nothing: the validation then rejects such tasks.
//
// A write that is derived from a registered version leaves a task as it is while a node with the legacy behaviour runs
// it: the running allocations would be replaced otherwise.
//
// The needs of a task that depend on a reference or on the configuration of a node are not known here. The task remains
// without privilege, and the client does not start it.
func (w *write) grant() error {
	if w.explicit(w.job.Namespace) != "" {
		return nil
	}
	var granted []string
	for _, p := range Places(w.job) {
		why := w.names.Needs(p.Task)
		if why == "" || p.Task.Privileged {
			continue
		}
		legacy := w.names.Legacy(p.Task.Driver)
		if legacy && !w.who.submits() {
			continue
		}
		err := w.grantable(p, why)
		switch {
		case err == nil:
			p.Task.Privileged = true
			granted = append(granted, fmt.Sprintf("%q of group %q", p.Task.Name, p.Group.Name))
		case !legacy:
			return err
		}
	}
	if len(granted) > 0 {
		w.granted = grantedWarning(w.job.ID, granted)
	}
	return nil
}

// grantable returns an error unless the asker may give privilege to a task. For a version that the asker did not write,
// its author must have had the right too. Otherwise a caller without the right could register a task whose need is not
// known yet. Other callers would give privilege to it by starting it.
func (w *write) grantable(p Place, why string) error {
	if w.cfg.Open {
		return nil
	}
	right := privilegeIn(w.job.Namespace)
	why = fmt.Sprintf("task %q of group %q needs privilege: %s%s", p.Task.Name, p.Group.Name, why, withoutRight(p, w.names))
	if err := w.who.allow(need{right, why, true}); err != nil {
		return err
	}
	author := w.job.Registrant
	switch {
	case w.who.target != nil:
		author = w.who.target.Registrant
	case w.who.submits():
		return nil
	}
	if hadRight(author, right) {
		return nil
	}
	return fmt.Errorf("%s: the author of the registered version had no such right: register the job again: %w", why, rpc.Denied(right))
}

// hadRight reports whether the stored rights of an author include a right.
func hadRight(r *nomad.Registrant, right acl.Question) bool {
	return r != nil && (r.Management || slices.Contains(r.Rights, right.String()))
}

// privilegeIn returns the right to run privileged tasks in a namespace.
func privilegeIn(namespace string) acl.Question {
	return acl.InNamespace(namespace, acl.PrivilegedExecution)
}

// grantedWarning returns the warning about tasks that got privilege.
func grantedWarning(job string, tasks []string) string {
	more := ""
	if n := len(tasks) - maxGranted; n > 0 {
		tasks, more = tasks[:maxGranted], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("job %q: the servers added privileged = true to tasks that need it: %s%s", job, strings.Join(tasks, ", "), more)
}

// explicit names the setting that demands privileged = true in the tasks of a namespace, for errors. It is empty if the
// servers add it.
func (v *View) explicit(namespace string) string {
	ns := v.snap.Namespace(nil, namespace)
	switch {
	case ns != nil && ns.Privileged == nomad.PrivilegedExplicit:
		return fmt.Sprintf("privileged = %q from namespace %q", nomad.PrivilegedExplicit, namespace)
	case v.cfg.ExplicitPrivilege:
		return fmt.Sprintf("privileged = %q from the server block of the servers", nomad.PrivilegedExplicit)
	}
	return ""
}
