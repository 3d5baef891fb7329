package admission

import (
	"fmt"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// unoffered returns an error for each privileged task whose driver never offers privilege.
func unoffered(job *nomad.Job, names *kinds.Names) (out []error) {
	for _, p := range Places(job) {
		if k := names.Kind(p.Task.Driver); p.Task.Privileged && k != nil && !k.Privileged() {
			out = append(out, fmt.Errorf("%s: driver %q does not offer privilege: remove privileged = true", p, p.Task.Driver))
		}
	}
	return out
}

// unprivileged returns an error for each task that needs privilege and does not have it, unless a
// node runs such tasks. The scheduler then places it on these nodes only. Without nodes, tasks that need
// privilege must have it. By names what demands the line, as explicit returns it.
func unprivileged(job *nomad.Job, names *kinds.Names, by string) (out []error) {
	for _, p := range Places(job) {
		why := names.Needs(p.Task)
		if why == "" || p.Task.Privileged || names.Legacy(p.Task.Driver) {
			continue
		}
		mend := fmt.Sprintf("add privileged = true to the task, which needs the ACL capability %s in namespace %q", acl.PrivilegedExecution,
			job.Namespace)
		if by != "" {
			mend += fmt.Sprintf(", or remove %s", by)
		}
		out = append(out, fmt.Errorf("%s: driver %q needs privilege: %s: %s%s", p, p.Task.Driver, why, mend, orLegacy(p, names)))
	}
	return out
}

// orLegacy names the option of the driver with which its tasks need no privilege, for errors.
func orLegacy(p Place, names *kinds.Names) string {
	if !names.Kind(p.Task.Driver).HasLegacyOption() {
		return ""
	}
	return fmt.Sprintf(", or set %s = true in the plugin config of %q on its nodes", drivers.LegacyOption, p.Task.Driver)
}

// withoutRight is orLegacy for a caller that lacks the right.
func withoutRight(p Place, names *kinds.Names) string {
	if !names.Kind(p.Task.Driver).HasLegacyOption() {
		return ""
	}
	return fmt.Sprintf(" (no right is needed with %s = true in the plugin config of %q on its nodes)", drivers.LegacyOption, p.Task.Driver)
}

// Unprivileged returns the errors of servers for the tasks of a canonical job that need privilege and do not have it.
// It assumes that no node has the legacy behaviour, and that the servers do not add the privilege.
func Unprivileged(job *nomad.Job, table kinds.Table) (out []string) {
	for _, err := range unprivileged(job, table.Names(nil), "") {
		out = append(out, err.Error())
	}
	return out
}
