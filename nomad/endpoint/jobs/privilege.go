package jobs

import (
	"fmt"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// NeedPrivilege checks that the caller may run the privileged tasks of a job. Every call that puts a
// specification of a job into effect, or shows what would happen, checks it: registration, plan,
// validation, explanation of a jobspec, scaling, dispatch and forced launches. Calls that act on a
// registered job do not: evaluating or stopping it, stopping or restarting its allocations.
func NeedPrivilege(c *rpc.Call, job *nomad.Job) error {
	for _, p := range places(job) {
		if !p.task.Privileged {
			continue
		}
		if err := c.Access.Need(acl.InNamespace(job.Namespace, acl.PrivilegedExecution)); err != nil {
			return fmt.Errorf("task %q of group %q is privileged: %w", p.task.Name, p.group.Name, err)
		}
	}
	return nil
}

// unoffered returns an error for each privileged task whose driver never offers privilege.
func unoffered(job *nomad.Job, names *kinds.Names) (out []error) {
	for _, p := range places(job) {
		if k := names.Kind(p.task.Driver); p.task.Privileged && k != nil && !k.Privileged() {
			out = append(out, fmt.Errorf("%s: driver %q does not offer privilege: remove privileged = true", p, p.task.Driver))
		}
	}
	return out
}

// unprivileged returns an error for each task that needs privilege and does not have it, unless a
// node runs such tasks. The scheduler then places it on these nodes only. Without nodes, tasks that need
// privilege must have it.
func unprivileged(job *nomad.Job, names *kinds.Names) (out []error) {
	for _, p := range places(job) {
		why := names.Needs(p.task)
		if why == "" || p.task.Privileged || names.Legacy(p.task.Driver) {
			continue
		}
		mend := fmt.Sprintf("add privileged = true to the task, which needs the ACL capability %s in namespace %q", acl.PrivilegedExecution, job.Namespace)
		if names.Kind(p.task.Driver).HasLegacyOption() {
			mend += fmt.Sprintf(", or set %s = true in the plugin config of %q on its nodes", drivers.LegacyOption, p.task.Driver)
		}
		out = append(out, fmt.Errorf("%s: driver %q needs privilege: %s: %s", p, p.task.Driver, why, mend))
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
