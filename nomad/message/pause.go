package message

import "github.com/open-nomad/open-nomad/nomad"

// AllocPauseRequest is the request of ClientAllocations.SetPauseState and Allocations.SetPauseState.
type AllocPauseRequest struct {
	AllocID       string
	Task          string
	ScheduleState nomad.TaskScheduleState
	QueryOptions
}

// Envelope returns the fields that the transport reads. The request has the form of a read, but it is
// marked as a write, because it changes the task.
func (r *AllocPauseRequest) Envelope() Envelope { return r.QueryOptions.changing() }

// AllocGetPauseStateRequest is the request of ClientAllocations.GetPauseState and Allocations.GetPauseState.
type AllocGetPauseStateRequest struct {
	AllocID string
	Task    string
	QueryOptions
}

// AllocGetPauseStateResponse is the reply of ClientAllocations.GetPauseState and Allocations.GetPauseState.
type AllocGetPauseStateResponse struct {
	ScheduleState nomad.TaskScheduleState
}
