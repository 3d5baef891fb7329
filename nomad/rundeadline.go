package nomad

import "time"

// AllocTimeoutReasonMaxRunDuration is the client description of an allocation that max_run_duration has ended, and the
// reason in the events of its tasks.
const AllocTimeoutReasonMaxRunDuration = "allocation exceeded max_run_duration"

// RunDeadline returns when max_run_duration of the allocation's group ends the allocation. ok is false without a limit.
func (a *Allocation) RunDeadline() (at time.Time, ok bool) {
	limit := a.maxRunDuration()
	if limit <= 0 {
		return time.Time{}, false
	}
	return time.Unix(0, a.CreateTime).Add(limit), true
}

// maxRunDuration returns the limit of the allocation's group, 0 for none.
func (a *Allocation) maxRunDuration() time.Duration {
	if a.Job == nil {
		return 0
	}
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil || group.MaxRunDuration == nil {
		return 0
	}
	return *group.MaxRunDuration
}
