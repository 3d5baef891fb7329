package httpclient

import (
	"maps"
	"net/http"
	"net/url"

	"github.com/open-nomad/open-nomad/api"
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
func (a *Allocations) List(q *QueryOptions) ([]*api.AllocationListStub, *api.QueryMeta, error) {
	return get[[]*api.AllocationListStub](a.client, "/v1/allocations", q)
}

// PrefixList lists the allocations whose ID begins with prefix.
func (a *Allocations) PrefixList(prefix string) ([]*api.AllocationListStub, *api.QueryMeta, error) {
	return a.List(&QueryOptions{Prefix: prefix})
}

// Info returns an allocation with its job.
func (a *Allocations) Info(allocID string, q *QueryOptions) (*api.Allocation, *api.QueryMeta, error) {
	return get[*api.Allocation](a.client, allocPath(allocID, ""), q)
}

// Stop stops an allocation. The scheduler may place a new one. q.Params can contain the
// parameters no_shutdown_delay and reschedule.
func (a *Allocations) Stop(alloc *api.Allocation, q *QueryOptions) (*api.AllocStopResponse, error) {
	var out api.AllocStopResponse
	meta, err := a.client.queryBody(http.MethodPut, allocPath(alloc.ID, "/stop"), nil, &out, q)
	if err != nil {
		return nil, err
	}
	out.LastIndex, out.RequestTime = meta.LastIndex, meta.RequestTime
	return &out, nil
}

// Restart restarts a task in place. An empty name means all running tasks.
func (a *Allocations) Restart(alloc *api.Allocation, taskName string, q *QueryOptions) error {
	return a.restart(alloc, &api.AllocationRestartRequest{TaskName: taskName}, q)
}

// RestartAllTasks restarts all tasks in place, including exited tasks.
func (a *Allocations) RestartAllTasks(alloc *api.Allocation, q *QueryOptions) error {
	return a.restart(alloc, &api.AllocationRestartRequest{AllTasks: true}, q)
}

func (a *Allocations) restart(alloc *api.Allocation, req *api.AllocationRestartRequest, q *QueryOptions) error {
	_, err := a.client.queryBody(http.MethodPut, clientAllocPath(alloc.ID, "/restart"), req, nil, q)
	return err
}

// Signal sends a signal to a task. An empty name means all tasks.
func (a *Allocations) Signal(alloc *api.Allocation, q *QueryOptions, task, signal string) error {
	req := &api.AllocSignalRequest{Task: task, Signal: signal}
	_, err := a.client.queryBody(http.MethodPut, clientAllocPath(alloc.ID, "/signal"), req, nil, q)
	return err
}

// Stats returns the current resource usage of an allocation.
func (a *Allocations) Stats(alloc *api.Allocation, q *QueryOptions) (*api.AllocResourceUsage, error) {
	out, _, err := get[*api.AllocResourceUsage](a.client, clientAllocPath(alloc.ID, "/stats"), q)
	return out, err
}

// Checks returns the latest results of the checks of an allocation's services.
func (a *Allocations) Checks(allocID string, q *QueryOptions) (api.AllocCheckStatuses, error) {
	out, _, err := get[api.AllocCheckStatuses](a.client, clientAllocPath(allocID, "/checks"), q)
	return out, err
}

// GC makes the node of a stopped allocation remove its files.
func (a *Allocations) GC(alloc *api.Allocation, q *QueryOptions) error {
	_, err := a.client.query(clientAllocPath(alloc.ID, "/gc"), nil, q)
	return err
}

// Sandbox compares the live and the declared sandbox of a task. An empty task means all
// sandboxed tasks. It exists only in open-nomad.
func (a *Allocations) Sandbox(alloc *api.Allocation, task string, q *QueryOptions) (map[string]*api.TaskSandbox, error) {
	q = ofTask(q, task)
	out, _, err := get[map[string]*api.TaskSandbox](a.client, clientAllocPath(alloc.ID, "/sandbox"), q)
	return out, err
}

// DiffTemplates renders the templates of a task without writing them. An empty task means all
// running tasks. It exists only in open-nomad.
func (a *Allocations) DiffTemplates(alloc *api.Allocation, task string, q *QueryOptions) (map[string][]*api.TemplateRender, error) {
	out, _, err := get[map[string][]*api.TemplateRender](a.client, clientAllocPath(alloc.ID, "/templates"), ofTask(q, task))
	return out, err
}

// RenderTemplates renders the templates of a task again and applies their change modes. An empty
// task means all running tasks. It exists only in open-nomad.
func (a *Allocations) RenderTemplates(alloc *api.Allocation, task string, q *QueryOptions) (map[string][]*api.TemplateRender, error) {
	var out map[string][]*api.TemplateRender
	_, err := a.client.queryBody(http.MethodPut, clientAllocPath(alloc.ID, "/templates"), nil, &out, ofTask(q, task))
	return out, err
}

// ofTask returns q with the task of a request about an allocation.
func ofTask(q *QueryOptions, task string) *QueryOptions {
	if task == "" {
		return q
	}
	own := QueryOptions{}
	if q != nil {
		own = *q
	}
	own.Params = maps.Clone(own.Params)
	if own.Params == nil {
		own.Params = map[string]string{}
	}
	own.Params["task"] = task
	return &own
}
