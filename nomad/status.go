package nomad

// ServerTerminalStatus reports whether the servers want the allocation to stop.
func (a *Allocation) ServerTerminalStatus() bool {
	return a.DesiredStatus == AllocDesiredStatusStop || a.DesiredStatus == AllocDesiredStatusEvict
}

// ClientTerminalStatus reports whether the client reported the allocation as ended.
func (a *Allocation) ClientTerminalStatus() bool {
	switch a.ClientStatus {
	case AllocClientStatusComplete, AllocClientStatusFailed, AllocClientStatusLost:
		return true
	}
	return false
}

// TerminalStatus reports whether the allocation is terminal for the servers or for the client.
func (a *Allocation) TerminalStatus() bool {
	return a.ServerTerminalStatus() || a.ClientTerminalStatus()
}

// Index returns the number in the brackets of the name, or -1 if there is none.
func (a *Allocation) Index() int { return AllocIndexFromName(a.Name) }

// JobNamespacedID returns the namespaced ID of the allocation's job.
func (a *Allocation) JobNamespacedID() NamespacedID {
	return NamespacedID{ID: a.JobID, Namespace: a.Namespace}
}

// TerminalStatus reports whether the evaluation is complete, failed or canceled.
func (e *Evaluation) TerminalStatus() bool {
	switch e.Status {
	case EvalStatusComplete, EvalStatusFailed, EvalStatusCancelled:
		return true
	}
	return false
}

// ShouldEnqueue reports whether a scheduler should process the evaluation now.
func (e *Evaluation) ShouldEnqueue() bool { return e.Status == EvalStatusPending }

// ShouldBlock reports whether the evaluation waits for capacity.
func (e *Evaluation) ShouldBlock() bool { return e.Status == EvalStatusBlocked }

// Active reports whether the deployment may still change.
func (d *Deployment) Active() bool {
	switch d.Status {
	case DeploymentStatusRunning, DeploymentStatusPaused, DeploymentStatusBlocked,
		DeploymentStatusUnblocking, DeploymentStatusInitializing, DeploymentStatusPending:
		return true
	}
	return false
}

// Ready reports whether the node accepts new allocations.
func (n *Node) Ready() bool {
	return n.Status == NodeStatusReady && n.DrainStrategy == nil &&
		n.SchedulingEligibility != NodeSchedulingIneligible
}

// TerminalStatus reports whether the node is down.
func (n *Node) TerminalStatus() bool { return n.Status == NodeStatusDown }

// IsInPool reports whether the node belongs to the named pool. Every node is in "all".
func (n *Node) IsInPool(pool string) bool { return pool == NodePoolAll || n.NodePool == pool }

// Stopped reports whether the job is nil or stopped.
func (j *Job) Stopped() bool { return j == nil || j.Stop }

// NamespacedID returns the namespaced ID of the job.
func (j *Job) NamespacedID() NamespacedID { return NamespacedID{ID: j.ID, Namespace: j.Namespace} }

// TaskGroup returns the named group, or nil if there is none.
func (j *Job) TaskGroup(name string) *TaskGroup {
	for _, tg := range j.TaskGroups {
		if tg.Name == name {
			return tg
		}
	}
	return nil
}

// IsParameterized reports whether the job is a template for dispatched jobs.
func (j *Job) IsParameterized() bool { return j.ParameterizedJob != nil && !j.Dispatched }

// IsPeriodic reports whether the job is a template for periodic launches.
func (j *Job) IsPeriodic() bool { return j.Periodic != nil }

// Task returns the named task, or nil if there is none.
func (tg *TaskGroup) Task(name string) *Task {
	for _, t := range tg.Tasks {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Successful reports whether the task ended without failure.
func (ts *TaskState) Successful() bool { return ts.State == TaskStateDead && !ts.Failed }
