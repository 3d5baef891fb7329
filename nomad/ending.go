package nomad

// What the end of a task means on its client:
//
//	task                                          exits with 0    exits otherwise
//	main task of a service or system job          as a failure    failure
//	sidecar of any job                            as a failure    failure
//	main task of a batch or sysbatch job          done            failure
//	prestart, poststart and poststop task         done            failure
//
// A failure is restarted by the restart policy. Without a restart that remains, the task has failed, and so has its
// allocation. A leader is a main task.
//
// What the end of an allocation means for the scheduler, while its desired status is run and it has no successor:
//
//	job         complete         failed        lost
//	service     replaced later   by policy     replaced
//	batch       done             by policy     replaced
//	system      replaced         replaced      replaced
//	sysbatch    done             done          done
//
// "by policy" is after the delay of the reschedule policy, if an attempt remains. "replaced later" is after that delay
// too, but always: no client should report it, and the job still lacks an allocation. Without a policy that allows a
// replacement, the delay is its longest one, and at least 30 s. Allocations of a system job are replaced at the next
// evaluation of the job.

// MustRunOn reports whether a task must run until its allocation stops, so that its end is a failure even with exit
// code 0. lifecycle is nil for a main task.
func MustRunOn(jobType string, lifecycle *TaskLifecycleConfig) bool {
	if lifecycle != nil {
		return lifecycle.Sidecar
	}
	return jobType != JobTypeBatch && jobType != JobTypeSysBatch
}

// Ending is what the end of an allocation means for the scheduler.
type Ending string

// The endings of an allocation.
const (
	// EndNone means that the allocation has not ended.
	EndNone Ending = "not ended"
	// EndDone means that the work is done.
	EndDone Ending = "done"
	// EndByPolicy means that the reschedule policy decides about a replacement.
	EndByPolicy Ending = "by policy"
	// EndDelayed means that a replacement is always due, after the delay of the reschedule policy.
	EndDelayed Ending = "replaced later"
	// EndReplaced means that a replacement is due at once.
	EndReplaced Ending = "replaced"
)

// EndingOf returns what a client status of an allocation means for the scheduler, by the type of its job.
func EndingOf(jobType, clientStatus string) Ending {
	switch clientStatus {
	case AllocClientStatusComplete, AllocClientStatusFailed, AllocClientStatusLost:
	default:
		return EndNone
	}
	switch {
	case jobType == JobTypeSysBatch:
		return EndDone
	case jobType == JobTypeSystem, clientStatus == AllocClientStatusLost:
		return EndReplaced
	case clientStatus == AllocClientStatusFailed:
		return EndByPolicy
	case jobType == JobTypeBatch:
		return EndDone
	}
	return EndDelayed
}

// AwaitsReplacement reports whether the allocation ended on its client although its desired status is run, so that the
// scheduler replaces it after a delay, or decides by the reschedule policy that it does not.
func (a *Allocation) AwaitsReplacement() bool {
	if a.Job == nil || a.ServerTerminalStatus() || a.NextAllocation != "" {
		return false
	}
	switch EndingOf(a.Job.Type, a.ClientStatus) {
	case EndByPolicy, EndDelayed:
		return true
	}
	return false
}
