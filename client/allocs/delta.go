package allocs

import (
	"reflect"

	"github.com/open-nomad/open-nomad/nomad"
)

// delta classifies a status by its difference from the previous one.
type delta int

const (
	// nothing: the statuses are equal.
	nothing delta = iota
	// detail: only the events of tasks differ.
	detail
	// change: anything else differs.
	change
)

// deltaOf compares a status with the one reported before. If before is nil, the servers have
// the allocation as pending.
func deltaOf(before, status *nomad.Allocation) delta {
	switch {
	case before == nil && !fresh(status):
		return change
	case before == nil:
		return detail
	case reflect.DeepEqual(before, status):
		return nothing
	case reflect.DeepEqual(withoutEvents(before), withoutEvents(status)):
		return detail
	}
	return change
}

// fresh reports whether a status shows only that nothing runs yet.
func fresh(status *nomad.Allocation) bool {
	for _, t := range status.TaskStates {
		if !reflect.DeepEqual(t, &nomad.TaskState{State: nomad.TaskStatePending, Events: t.Events}) {
			return false
		}
	}
	return status.ClientStatus == nomad.AllocClientStatusPending && status.DeploymentStatus == nil && status.NetworkStatus == nil
}

// withoutEvents returns a copy of a status without task events.
func withoutEvents(status *nomad.Allocation) *nomad.Allocation {
	out := *status
	out.TaskStates = make(map[string]*nomad.TaskState, len(status.TaskStates))
	for name, t := range status.TaskStates {
		if t != nil {
			stripped := *t
			stripped.Events = nil
			t = &stripped
		}
		out.TaskStates[name] = t
	}
	return &out
}
