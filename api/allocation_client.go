package api

import (
	"net/http"
	"net/url"
)

// Allocations is the handle for allocations.
type Allocations struct{ client *Client }

// Allocations returns the handle for allocations.
func (c *Client) Allocations() *Allocations { return &Allocations{c} }

func allocPath(id, rest string) string { return "/v1/allocation/" + url.PathEscape(id) + rest }

func clientAllocPath(id, rest string) string {
	return "/v1/client/allocation/" + url.PathEscape(id) + rest
}

// List lists allocations, oldest first.
func (a *Allocations) List(q *QueryOptions) ([]*AllocationListStub, *QueryMeta, error) {
	return get[[]*AllocationListStub](a.client, "/v1/allocations", q)
}

// PrefixList lists the allocations whose ID begins with prefix.
func (a *Allocations) PrefixList(prefix string) ([]*AllocationListStub, *QueryMeta, error) {
	return a.List(&QueryOptions{Prefix: prefix})
}

// Info returns an allocation with its job.
func (a *Allocations) Info(allocID string, q *QueryOptions) (*Allocation, *QueryMeta, error) {
	return get[*Allocation](a.client, allocPath(allocID, ""), q)
}

// Stop stops an allocation. The scheduler may place a new one. q.Params can contain the
// parameters no_shutdown_delay and reschedule.
func (a *Allocations) Stop(alloc *Allocation, q *QueryOptions) (*AllocStopResponse, error) {
	var out AllocStopResponse
	meta, err := a.client.queryBody(http.MethodPut, allocPath(alloc.ID, "/stop"), nil, &out, q)
	if err != nil {
		return nil, err
	}
	out.LastIndex, out.RequestTime = meta.LastIndex, meta.RequestTime
	return &out, nil
}

// Restart restarts a task in place. An empty name means all running tasks.
func (a *Allocations) Restart(alloc *Allocation, taskName string, q *QueryOptions) error {
	return a.restart(alloc, &AllocationRestartRequest{TaskName: taskName}, q)
}

// RestartAllTasks restarts all tasks in place, including exited tasks.
func (a *Allocations) RestartAllTasks(alloc *Allocation, q *QueryOptions) error {
	return a.restart(alloc, &AllocationRestartRequest{AllTasks: true}, q)
}

func (a *Allocations) restart(alloc *Allocation, req *AllocationRestartRequest, q *QueryOptions) error {
	_, err := a.client.queryBody(http.MethodPut, clientAllocPath(alloc.ID, "/restart"), req, nil, q)
	return err
}

// Signal sends a signal to a task. An empty name means all tasks.
func (a *Allocations) Signal(alloc *Allocation, q *QueryOptions, task, signal string) error {
	req := &AllocSignalRequest{Task: task, Signal: signal}
	_, err := a.client.queryBody(http.MethodPut, clientAllocPath(alloc.ID, "/signal"), req, nil, q)
	return err
}

// Stats returns the current resource usage of an allocation.
func (a *Allocations) Stats(alloc *Allocation, q *QueryOptions) (*AllocResourceUsage, error) {
	out, _, err := get[*AllocResourceUsage](a.client, clientAllocPath(alloc.ID, "/stats"), q)
	return out, err
}

// GC makes the node of a stopped allocation remove its files.
func (a *Allocations) GC(alloc *Allocation, q *QueryOptions) error {
	_, err := a.client.query(clientAllocPath(alloc.ID, "/gc"), nil, q)
	return err
}
