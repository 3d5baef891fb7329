package nomad

// MayBeRescheduled reports whether a scheduler may still replace the failed allocation by its reschedule
// policy. The replacement copies its reschedule history.
func (a *Allocation) MayBeRescheduled() bool {
	if a.ClientStatus != AllocClientStatusFailed || a.ServerTerminalStatus() || a.NextAllocation != "" || a.Job == nil {
		return false
	}
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil || group.ReschedulePolicy == nil {
		return false
	}
	p := group.ReschedulePolicy
	return p.Unlimited || p.Attempts > 0 && p.Interval > 0
}
