package deploy

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// revertsOnFail reports whether a group has auto_revert.
func revertsOnFail(d *nomad.Deployment) bool {
	for _, g := range d.TaskGroups {
		if g.AutoRevert {
			return true
		}
	}
	return false
}

// reverting returns the job to register when the deployment fails: a copy of the latest stable version, which keeps
// the number of that version. It must pass admission with the rights of the author of the deployment's version. It is nil
// if there is none, if it equals the current version, if it is refused, or if the deployment is not of the current
// version. The suffix of the status description explains the result.
func (w *Watcher) reverting(snap *state.Snapshot, d *nomad.Deployment, now time.Time) (job *admission.Admitted, suffix string) {
	current := snap.Job(nil, d.Namespace, d.JobID)
	if current.Stopped() || current.CreateIndex != d.JobCreateIndex || current.Version != d.JobVersion {
		return nil, ""
	}
	v := nomad.NewestStable(snap.JobVersions(nil, d.Namespace, d.JobID))
	if v == nil {
		return nil, " - no stable job version to auto revert to"
	}
	same := fmt.Sprintf(" - not rolling back to stable job version %d as current job has same specification", v.Version)
	if reconcile.SameSpec(v, current) {
		return nil, same
	}
	out := codec.Copy(v)
	out.Stable, out.VersionTag, out.SubmitTime = false, nil, now.UnixNano()
	job, err := w.cfg.Admission.At(snap).Admit(admission.Author(current), out)
	if err != nil {
		w.cfg.Log.Warn("job not rolled back", "deployment", d.ID, "job", d.JobID, "namespace", d.Namespace, "version", v.Version, "err", err)
		return nil, fmt.Sprintf(" - not rolling back to stable job version %d: %s", v.Version, untrusted.Shorten(err.Error(), maxReason))
	}
	if reconcile.SameSpec(job.Job(), current) { // admission added privilege to it
		return nil, same
	}
	return job, fmt.Sprintf(" - rolling back to job version %d", v.Version)
}

// maxReason is the maximum number of bytes of a refusal in a status description.
const maxReason = 1000
