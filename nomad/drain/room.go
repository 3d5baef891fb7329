package drain

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Room returns how many allocations of a group of a service job may leave their nodes now: the max_parallel of its
// migrate block, minus those that are missing or have no decided health yet. It is zero or negative if none may.
// Drains use the same rule.
func Room(snap *state.Snapshot, job *nomad.Job, tg *nomad.TaskGroup) int {
	decidedHealth := 0
	for a := range snap.AllocsByJob(nil, job.Namespace, job.ID) {
		if a.TaskGroup == tg.Name && markable(a) && decided(a) {
			decidedHealth++
		}
	}
	return room(tg, decidedHealth)
}
