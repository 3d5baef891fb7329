package message

import "github.com/open-nomad/open-nomad/nomad"

// AllocListRequest is the request of Alloc.List.
type AllocListRequest struct {
	QueryOptions
	Fields *nomad.AllocStubFields
}

// AllocListResponse is the reply of Alloc.List and Deployment.Allocations.
type AllocListResponse struct {
	Allocations []*nomad.AllocListStub
	QueryMeta
}

// AllocRestartRequest is the request of ClientAllocations.Restart and Allocations.Restart.
type AllocRestartRequest struct {
	AllocID  string
	TaskName string
	AllTasks bool
	QueryOptions
}

// Envelope returns the fields that the transport reads. The request has the form of a read, but it is
// marked as a write, because a task must not be restarted twice.
func (r *AllocRestartRequest) Envelope() Envelope { return r.QueryOptions.changing() }

// AllocSignalRequest is the request of ClientAllocations.Signal and Allocations.Signal.
type AllocSignalRequest struct {
	AllocID string
	Task    string
	Signal  string
	QueryOptions
}

// Envelope returns the fields that the transport reads. The request has the form of a read, but it is
// marked as a write, because a signal must not be sent twice.
func (r *AllocSignalRequest) Envelope() Envelope { return r.QueryOptions.changing() }

// AllocSpecificRequest is the request of Alloc.GetAlloc, ClientAllocations.GarbageCollect and Allocations.GarbageCollect.
type AllocSpecificRequest struct {
	AllocID string
	QueryOptions
}

// AllocStopRequest is the request of Alloc.Stop.
type AllocStopRequest struct {
	AllocID         string
	NoShutdownDelay bool
	Reschedule      bool
	WriteRequest
}

// AllocStopResponse is the reply of Alloc.Stop.
type AllocStopResponse struct {
	EvalID string
	WriteMeta
}

// AllocUpdateDesiredTransitionRequest is the request of Alloc.UpdateDesiredTransition.
type AllocUpdateDesiredTransitionRequest struct {
	Allocs map[string]*nomad.DesiredTransition
	Evals  []*nomad.Evaluation
	WriteRequest
}

// AllocUpdateRequest is the request of Node.UpdateAlloc.
type AllocUpdateRequest struct {
	Alloc []*nomad.Allocation
	Evals []*nomad.Evaluation
	// Session and Number (open-nomad only) are the session of the agent and the number of the call in it, from 1. A
	// call that arrives after one with a higher number is rejected. They are not in the log.
	Session string `codec:",omitempty"`
	Number  uint64 `codec:",omitempty"`
	WriteRequest
}

// AllocsGetRequest is the request of Alloc.GetAllocs.
type AllocsGetRequest struct {
	AllocIDs []string
	QueryOptions
}

// AllocsGetResponse is the reply of Alloc.GetAllocs.
type AllocsGetResponse struct {
	Allocs           []*nomad.Allocation
	SignedIdentities []SignedWorkloadIdentity
	QueryMeta
}

// SingleAllocResponse is the reply of Alloc.GetAlloc.
type SingleAllocResponse struct {
	Alloc *nomad.Allocation
	QueryMeta
}
