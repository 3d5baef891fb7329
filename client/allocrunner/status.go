package allocrunner

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// State is what the client knows of the allocation.
type State struct {
	ClientStatus      string
	ClientDescription string
	TaskStates        map[string]*nomad.TaskState
	DeploymentStatus  *nomad.AllocDeploymentStatus
}

// State returns what the client knows of the allocation, in values of the
// caller's own but for the events, which never change.
func (r *Runner) State() State {
	states := r.States()
	r.mu.Lock()
	defer r.mu.Unlock()
	status, description := clientStatus(r.group.Tasks, states)
	if r.fault != "" {
		description = r.fault
	}
	return State{
		ClientStatus: status, ClientDescription: description, TaskStates: states,
		DeploymentStatus: nomad.Copy(r.deploy),
	}
}

// States returns the states of the tasks by name.
func (r *Runner) States() map[string]*nomad.TaskState {
	r.mu.Lock()
	defer r.mu.Unlock()
	states := make(map[string]*nomad.TaskState, len(r.states))
	for name, s := range r.states {
		states[name] = s
		if t := r.tasks[name]; t != nil {
			states[name] = t.State()
		}
	}
	return states
}

// Alloc returns the allocation as the servers last sent it.
func (r *Runner) Alloc() *nomad.Allocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alloc
}

// Done is closed when the last task is over.
func (r *Runner) Done() <-chan struct{} { return r.over }

// Changed receives after the state of a task changed, for the health hook.
func (r *Runner) Changed() <-chan struct{} { return r.changed }

// SetHealth takes the verdict on the allocation in a deployment. One that comes
// when the allocation belongs to another deployment already is dropped.
func (r *Runner) SetHealth(deployment string, healthy bool) {
	r.mu.Lock()
	if r.alloc.DeploymentID == deployment {
		status := &nomad.AllocDeploymentStatus{}
		if r.deploy != nil {
			*status = *r.deploy
		}
		status.Healthy, status.Timestamp = &healthy, time.Now()
		r.deploy, r.deployNew = status, true
	}
	r.mu.Unlock()
	r.nudge()
}

// storeHealth puts a new verdict, or that there is none any more, on disk.
func (r *Runner) storeHealth() {
	r.mu.Lock()
	status, changed := r.deploy, r.deployNew
	r.deployNew = false
	r.mu.Unlock()
	if !changed {
		return
	}
	if status == nil {
		status = &nomad.AllocDeploymentStatus{}
	}
	if err := r.cfg.Store.PutDeployStatus(r.cfg.Alloc.ID, status); err != nil {
		r.log.Warn("health not stored", "err", err)
	}
}

func (r *Runner) setNetwork(n *nomad.AllocNetworkStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.network = n
}

// report is what Node.UpdateAlloc sends.
func (r *Runner) report() *nomad.Allocation {
	s := r.State()
	r.mu.Lock()
	alloc, network := r.alloc, r.network
	r.mu.Unlock()
	return &nomad.Allocation{
		ID: alloc.ID, Namespace: alloc.Namespace, JobID: alloc.JobID, TaskGroup: alloc.TaskGroup,
		EvalID: alloc.EvalID, NodeID: alloc.NodeID, DeploymentID: alloc.DeploymentID,
		ClientStatus: s.ClientStatus, ClientDescription: s.ClientDescription,
		TaskStates: s.TaskStates, DeploymentStatus: s.DeploymentStatus, NetworkStatus: network,
	}
}

// clientStatus sums up the tasks. An allocation is over only when every task is:
// until then its resources are in use.
func clientStatus(tasks []*nomad.Task, states map[string]*nomad.TaskState) (status, description string) {
	var running, pending, dead, failed int
	for _, t := range tasks {
		switch s := states[t.Name]; {
		case s.State == nomad.TaskStateRunning:
			running++
		case s.State != nomad.TaskStateDead:
			pending++
		default:
			dead++
			if s.Failed {
				failed++
			}
		}
	}
	switch {
	case running > 0:
		return nomad.AllocClientStatusRunning, fmt.Sprintf("%d of %d tasks run", running, len(tasks))
	case pending > 0 && waitsForPoststop(tasks, states):
		return nomad.AllocClientStatusRunning, "the main tasks are over"
	case pending > 0 && survey(tasks, states).mainTouched:
		return nomad.AllocClientStatusPending, "a task waits for its restart"
	case pending > 0:
		return nomad.AllocClientStatusPending, "no task runs yet"
	case failed > 0:
		return nomad.AllocClientStatusFailed, "a task failed"
	}
	return nomad.AllocClientStatusComplete, "all tasks completed"
}

// waitsForPoststop says whether only poststop tasks are left to run.
func waitsForPoststop(tasks []*nomad.Task, states map[string]*nomad.TaskState) bool {
	v := survey(tasks, states)
	return v.mainDead && v.mainTouched
}
