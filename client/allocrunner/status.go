package allocrunner

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// State is the client's view of the allocation.
type State struct {
	ClientStatus      string
	ClientDescription string
	TaskStates        map[string]*nomad.TaskState
	DeploymentStatus  *nomad.AllocDeploymentStatus
}

// State returns the client's view of the allocation. The caller owns the result, except for the
// events, which never change.
func (r *Runner) State() State {
	states := r.States()
	r.mu.Lock()
	defer r.mu.Unlock()
	status, description := clientStatus(r.group.Tasks, states)
	switch {
	case r.fault != "":
		description = r.fault
	case status == nomad.AllocClientStatusComplete && expired(states):
		description = nomad.AllocTimeoutReasonMaxRunDuration
	}
	return State{
		ClientStatus: status, ClientDescription: description, TaskStates: states,
		DeploymentStatus: codec.Copy(r.deploy),
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

// Done is closed when all tasks are dead and cleaned up.
func (r *Runner) Done() <-chan struct{} { return r.over }

// Changed receives after each change of a task's state, for the health hook.
func (r *Runner) Changed() <-chan struct{} { return r.changed }

// Emit adds an event to a task that has a runner.
func (r *Runner) Emit(task string, e *nomad.TaskEvent) {
	r.mu.Lock()
	t := r.tasks[task]
	r.mu.Unlock()
	if t != nil {
		t.Emit(e)
	}
}

// SetHealth sets the allocation's health in a deployment. It does nothing if the allocation now
// belongs to another deployment.
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

// storeHealth stores a changed deployment health.
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
		r.log.Warn("store deployment health", "err", err)
	}
}

func (r *Runner) setNetwork(n *nomad.AllocNetworkStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.network = n
}

func (r *Runner) setNetNS(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.netNS = path
}

// Network returns the path of the network namespace and the network status of the allocation, "" and
// nil if it shares the host's network.
func (r *Runner) Network() (netNS string, status *nomad.AllocNetworkStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.netNS, r.network
}

// EmitAll adds an event to every task that has a runner.
func (r *Runner) EmitAll(e *nomad.TaskEvent) {
	r.mu.Lock()
	tasks := r.tasks // replaced as a whole, never changed
	r.mu.Unlock()
	for _, t := range tasks {
		t.Emit(e)
	}
}

// report returns the fields that Node.UpdateAlloc sends.
func (r *Runner) report() *nomad.Allocation {
	s := r.State()
	r.mu.Lock()
	alloc, network, deploy := r.alloc, r.network, codec.Copy(r.deploy) // of the same version of the allocation
	r.mu.Unlock()
	if network == nil && s.ClientStatus == nomad.AllocClientStatusRunning {
		network = &nomad.AllocNetworkStatus{} // tools read its fields; it has none on the host's network
	}
	return &nomad.Allocation{
		ID: alloc.ID, Namespace: alloc.Namespace, JobID: alloc.JobID, TaskGroup: alloc.TaskGroup,
		EvalID: alloc.EvalID, NodeID: alloc.NodeID, DeploymentID: alloc.DeploymentID,
		ClientStatus: s.ClientStatus, ClientDescription: s.ClientDescription,
		TaskStates: s.TaskStates, DeploymentStatus: deploy, NetworkStatus: network,
	}
}

// clientStatus derives the status of the allocation from its tasks. The allocation is terminal
// only when every task is, because until then its resources are in use.
func clientStatus(tasks []*nomad.Task, states map[string]*nomad.TaskState) (status, description string) {
	var running, paused, pending, dead, failed int
	for _, t := range tasks {
		switch s := states[t.Name]; {
		case s.State == nomad.TaskStateRunning:
			running++
		case s.State != nomad.TaskStateDead && s.Paused.Pauses():
			paused++
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
		return nomad.AllocClientStatusRunning, "Tasks are running"
	case paused > 0:
		return nomad.AllocClientStatusRunning, "Tasks are paused"
	case pending > 0 && waitsForPoststop(tasks, states):
		return nomad.AllocClientStatusRunning, "Main tasks are dead, poststop tasks have not started"
	case pending > 0 && survey(tasks, states).mainTouched:
		return nomad.AllocClientStatusPending, "A task is waiting to restart"
	case pending > 0:
		return nomad.AllocClientStatusPending, "No tasks have started"
	case failed > 0:
		return nomad.AllocClientStatusFailed, "Failed tasks"
	}
	return nomad.AllocClientStatusComplete, "All tasks have completed"
}

// waitsForPoststop reports whether only poststop tasks remain to run.
func waitsForPoststop(tasks []*nomad.Task, states map[string]*nomad.TaskState) bool {
	v := survey(tasks, states)
	return v.mainDead && v.mainTouched
}
