package explain

import (
	"net/http"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/message"
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

// submitted returns the job that a request would submit, with its defaults.
func submitted(req *message.ACLExplainRequest) (*nomad.Job, error) {
	if err := jobrules.Bound(req.Job); err != nil {
		return nil, apierror.Errorf(http.StatusBadRequest, "%v", err)
	}
	job := codec.Copy(req.Job)
	jobrules.Canonicalize(job)
	return job, nil
}

// privileged reports whether a task of the job is privileged, or needs privilege and no node runs it without.
func privileged(job *nomad.Job, names *kinds.Names) bool {
	return slices.ContainsFunc(job.TaskGroups, func(g *nomad.TaskGroup) bool {
		return slices.ContainsFunc(g.Tasks, func(t *nomad.Task) bool {
			return t.Privileged || names.Needs(t) != "" && !names.Legacy(t.Driver)
		})
	})
}
