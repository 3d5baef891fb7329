package explain

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// putsIntoEffect reports whether an action on a job needs the right to run its privileged tasks
// (admission.Admitter.Rights).
func putsIntoEffect(right string) bool {
	return slices.Contains([]string{"dispatch", "dispatch-job", "force", "force-periodic-job", "plan", "plan-job", "register-job", "revert",
		"revert-job", "run", "scale", "scale-job", "stable", "stable-job", "submit-job"}, right)
}

// inEffect returns the versions that an action on a job may put into effect. The question does not name the version.
func inEffect(snap *state.Snapshot, job *nomad.Job, right string) []*nomad.Job {
	if slices.Contains([]string{"revert", "revert-job", "stable", "stable-job"}, right) {
		return snap.JobVersions(nil, job.Namespace, job.ID)
	}
	return []*nomad.Job{job}
}

// privileged reports whether a task of the job is privileged.
func privileged(job *nomad.Job) bool {
	return slices.ContainsFunc(job.TaskGroups, func(g *nomad.TaskGroup) bool {
		return slices.ContainsFunc(g.Tasks, func(t *nomad.Task) bool { return t.Privileged })
	})
}
