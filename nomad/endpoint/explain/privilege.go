package explain

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// putsIntoEffect reports whether an action on a job needs the right to run its privileged tasks
// (admission.Admitter.Rights).
func putsIntoEffect(right string) bool {
	return slices.Contains([]string{"dispatch", "dispatch-job", "force", "force-periodic-job", "plan", "plan-job", "register-job", "revert", "revert-job", "run", "scale", "scale-job", "submit-job"}, right)
}

// privileged reports whether a task of the job is privileged.
func privileged(job *nomad.Job) bool {
	return slices.ContainsFunc(job.TaskGroups, func(g *nomad.TaskGroup) bool {
		return slices.ContainsFunc(g.Tasks, func(t *nomad.Task) bool { return t.Privileged })
	})
}
