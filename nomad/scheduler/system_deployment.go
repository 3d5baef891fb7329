package scheduler

import (
	"maps"

	"github.com/hashicorp/go-version"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// oldestDeploying is the first version of clients that report the health of system allocations.
var oldestDeploying = version.Must(version.NewVersion("1.11.0"))

// deploysSystem reports whether a system job has deployments: one of its groups has an update block with a
// max_parallel, and all clients that are not down have a version that supports it.
func deploysSystem(job *nomad.Job, snap State) bool {
	if job.Stopped() || !rollsAny(job) {
		return false
	}
	checked := map[string]bool{} // thousands of nodes share a few versions
	for n := range snap.Nodes(nil) {
		text := n.Attributes["nomad.version"]
		if n.TerminalStatus() || checked[text] {
			continue
		}
		v, err := untrusted.Version(text)
		if err != nil || v.Core().LessThan(oldestDeploying) {
			return false
		}
		checked[text] = true
	}
	return true
}

func rollsAny(job *nomad.Job) bool {
	for _, tg := range job.TaskGroups {
		if tg.Update != nil && tg.Update.MaxParallel > 0 {
			return true
		}
	}
	return false
}

// sized returns the deployment that the plan stores, or nil. A new one gets the number of feasible nodes of each group.
// An existing one is stored again if this number changed, because nodes came or went. While no node is left, it keeps
// the number, so that it is not complete.
func sized(r *reconcile.Result) *nomad.Deployment {
	if r.Created != nil {
		for name, g := range r.Created.TaskGroups {
			if g.DesiredTotal = r.Totals[name]; g.DesiredTotal == 0 {
				delete(r.Created.TaskGroups, name)
			}
		}
		if len(r.Created.TaskGroups) == 0 { // no node is feasible
			r.Created, r.Deployment = nil, nil
			return nil
		}
		r.Created.StatusDescription = r.Created.RunningDescription()
		return r.Created
	}
	if r.Deployment == nil {
		return nil
	}
	out, changed := *r.Deployment, false
	out.TaskGroups = maps.Clone(out.TaskGroups)
	for name, g := range out.TaskGroups {
		if total, ok := r.Totals[name]; ok && total > 0 && total != g.DesiredTotal {
			resized := *g
			resized.DesiredTotal = total
			out.TaskGroups[name], changed = &resized, true
		}
	}
	if !changed {
		return nil
	}
	return &out
}
