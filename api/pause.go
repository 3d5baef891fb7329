package api

import "net/http"

// AllocPauseRequest is the body of PUT /v1/client/allocation/:id/pause. The state is pause, run or scheduled.
type AllocPauseRequest struct {
	Task          string
	ScheduleState string
}

// AllocGetPauseResponse is the reply of GET /v1/client/allocation/:id/pause.
type AllocGetPauseResponse struct {
	ScheduleState string
}

// SetPauseState pauses or runs a task against its schedule, or returns it to its schedule. The state is pause,
// run or scheduled.
func (a *Allocations) SetPauseState(alloc *Allocation, q *QueryOptions, task, state string) error {
	req := &AllocPauseRequest{Task: task, ScheduleState: state}
	_, err := a.client.queryBody(call{http.MethodPut, clientAllocPath(alloc.ID, "/pause"), req, nil}, q)
	return err
}

// GetPauseState returns the state of a task's schedule: empty while it may run.
func (a *Allocations) GetPauseState(alloc *Allocation, q *QueryOptions, task string) (string, *QueryMeta, error) {
	out, meta, err := get[*AllocGetPauseResponse](a.client, clientAllocPath(alloc.ID, "/pause"), ofTask(q, task))
	if err != nil {
		return "", nil, err
	}
	return out.ScheduleState, meta, nil
}
