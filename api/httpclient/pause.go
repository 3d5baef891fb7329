package httpclient

import (
	"net/http"

	"github.com/open-nomad/open-nomad/api"
)

// SetPauseState pauses or runs a task against its schedule, or returns it to its schedule. The state is pause,
// run or scheduled.
func (a *Allocations) SetPauseState(alloc *api.Allocation, q *QueryOptions, task, state string) error {
	req := &api.AllocPauseRequest{Task: task, ScheduleState: state}
	_, err := a.client.queryBody(http.MethodPut, clientAllocPath(alloc.ID, "/pause"), req, nil, q)
	return err
}

// GetPauseState returns the state of a task's schedule: empty while it may run.
func (a *Allocations) GetPauseState(alloc *api.Allocation, q *QueryOptions, task string) (string, *api.QueryMeta, error) {
	out, meta, err := get[*api.AllocGetPauseResponse](a.client, clientAllocPath(alloc.ID, "/pause"), ofTask(q, task))
	if err != nil {
		return "", nil, err
	}
	return out.ScheduleState, meta, nil
}
