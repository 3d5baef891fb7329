package network

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
)

// checkTasks refuses an isolated group with a task that has another network. The rules of the bridge do not apply to
// that network.
func checkTasks(a *nomad.Allocation, isolated bool) error {
	if !isolated || a.Job == nil {
		return nil
	}
	tg := a.Job.TaskGroup(a.TaskGroup)
	if tg == nil {
		return nil
	}
	for _, t := range tg.Tasks {
		if t.LeavesNetwork() {
			return fmt.Errorf("the group is isolated on the bridge (isolate, egress, or bridge_network_isolate of "+
				"the node), but task %q has network_mode = %q: remove it, or use none",
				t.Name, fmt.Sprint(t.Config["network_mode"]))
		}
	}
	return nil
}
