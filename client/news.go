package client

import (
	"reflect"

	"github.com/open-nomad/open-nomad/nomad"
)

// news says what a status has beside the one before it.
type news int

const (
	// nothing: the same was told already.
	nothing news = iota
	// detail: events of tasks, which tell how the same came about.
	detail
	// change: anything that somebody may wait for.
	change
)

// newsOf compares a status with the one that was told before, nil when there was none:
// then servers know the allocation as pending.
func newsOf(before, status *nomad.Allocation) news {
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

// fresh says whether a status says no more than that nothing runs yet.
func fresh(status *nomad.Allocation) bool {
	for _, t := range status.TaskStates {
		if !reflect.DeepEqual(t, &nomad.TaskState{State: nomad.TaskStatePending, Events: t.Events}) {
			return false
		}
	}
	return status.ClientStatus == nomad.AllocClientStatusPending && status.DeploymentStatus == nil && status.NetworkStatus == nil
}

// withoutEvents is a status without the events of its tasks.
func withoutEvents(status *nomad.Allocation) *nomad.Allocation {
	out := *status
	out.TaskStates = make(map[string]*nomad.TaskState, len(status.TaskStates))
	for name, t := range status.TaskStates {
		if t != nil {
			bare := *t
			bare.Events = nil
			t = &bare
		}
		out.TaskStates[name] = t
	}
	return &out
}
