package deploy

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
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
// the number of that version. It is nil if there is none, if it equals the current version, or if the deployment is
// not of the current version. The suffix of the status description explains the result.
func reverting(snap *state.Snapshot, d *nomad.Deployment, now time.Time) (job *nomad.Job, suffix string) {
	current := snap.Job(nil, d.Namespace, d.JobID)
	if current.Stopped() || current.CreateIndex != d.JobCreateIndex || current.Version != d.JobVersion {
		return nil, ""
	}
	for _, v := range snap.JobVersions(nil, d.Namespace, d.JobID) {
		if !v.Stable || v.CreateIndex != current.CreateIndex || v.Stopped() {
			continue
		}
		if reconcile.SameSpec(v, current) {
			return nil, fmt.Sprintf(" - not rolling back to stable job version %d as current job has same specification", v.Version)
		}
		out := codec.Copy(v)
		out.Stable, out.VersionTag, out.SubmitTime = false, nil, now.UnixNano()
		return out, fmt.Sprintf(" - rolling back to job version %d", v.Version)
	}
	return nil, " - no stable job version to auto revert to"
}
