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
// privilege must have it.
func unprivileged(job *nomad.Job, names *kinds.Names) (out []error) {
	for _, p := range Places(job) {
		why := names.Needs(p.Task)
		if why == "" || p.Task.Privileged || names.Legacy(p.Task.Driver) {
			continue
		}
		mend := fmt.Sprintf("add privileged = true to the task, which needs the ACL capability %s in namespace %q", acl.PrivilegedExecution,
			job.Namespace)
		if names.Kind(p.Task.Driver).HasLegacyOption() {
			mend += fmt.Sprintf(", or set %s = true in the plugin config of %q on its nodes", drivers.LegacyOption, p.Task.Driver)
		}
		out = append(out, fmt.Errorf("%s: driver %q needs privilege: %s: %s", p, p.Task.Driver, why, mend))
	}
	return out
}

// Unprivileged returns what servers answer about the tasks of a canonical job that need privilege and
// do not have it, if no node has the legacy behaviour.
func Unprivileged(job *nomad.Job, table kinds.Table) (out []string) {
	for _, err := range unprivileged(job, table.Names(nil)) {
		out = append(out, err.Error())
	}
	return out
}
