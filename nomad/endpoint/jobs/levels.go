package jobs

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// maxIsolation limits the tasks that a plan reports levels of.
const maxIsolation = 200

// levels returns the isolation level of each task: the most that any node gives it, and the levels
// that the nodes give it on which the job may be placed.
func levels(snap *state.Snapshot, table kinds.Table, names *kinds.Names, job *nomad.Job) []*message.TaskIsolation {
	all := admission.Places(job)
	out := make([]*message.TaskIsolation, 0, min(len(all), maxIsolation))
	for _, p := range all[:min(len(all), maxIsolation)] {
		out = append(out, &message.TaskIsolation{TaskGroup: p.Group.Name, Task: p.Task.Name,
			Level: kinds.Isolation(names.Kind(p.Task.Driver), p.Task).Level().String(), Nodes: map[string]int{}})
	}
	ns := snap.Namespace(nil, job.Namespace)
	for n := range scheduler.Candidates(snap, job) {
		for i, t := range out {
			p := all[i]
			if info := n.Drivers[p.Task.Driver]; info == nil || !info.Detected || !info.Healthy {
				continue
			}
			l := min(kinds.LevelOn(n, p.Task.Driver), kinds.Isolation(table.On(n, p.Task.Driver), p.Task).Level())
			if l >= kinds.Required(ns, p.Task) {
				t.Nodes[l.String()]++
			}
		}
	}
	return out
}
