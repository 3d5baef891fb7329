package taskrunner

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Processes lists the processes in the control group of the running task. Without such a group the list is empty.
func (r *Runner) Processes(ctx context.Context) ([]int, error) {
	id := r.taskID()
	if id == "" {
		return nil, nil
	}
	tree, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	if d, ok := r.cfg.Driver.(drivers.Processer); ok {
		pid, err := d.TaskProcess(ctx, id)
		if errors.Is(err, drivers.ErrTaskNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return tree.Processes(pid)
	}
	group, err := tree.Open(drivers.TaskGroup(cgroupParent(r.cfg.Node), r.cfg.Alloc.ID, r.name, r.cores()))
	if err != nil {
		return nil, fmt.Errorf("find the control group of the task: %w", err)
	}
	return group.Pids()
}

// cores returns the reserved cores of the task.
func (r *Runner) cores() []uint16 {
	if res := r.cfg.Alloc.AllocatedResources; res != nil && res.Tasks[r.name] != nil {
		return res.Tasks[r.name].Cpu.ReservedCores
	}
	return nil
}

// PortMap returns the ports inside the network that the driver has given the running task, by label. It is nil without
// such a network.
func (r *Runner) PortMap() map[string]int {
	id := r.taskID()
	if id == "" {
		return nil
	}
	status, err := r.cfg.Driver.InspectTask(id)
	if err != nil || status.Network == nil {
		return nil // without it, the ports of the allocation apply
	}
	return status.Network.PortMap
}
