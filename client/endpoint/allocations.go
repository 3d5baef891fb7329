package endpoint

import (
	"context"
	"net/http"

	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/client/consul"
	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// allocations handles requests about an allocation and its tasks.
type allocations struct {
	allocs  *allocs.Set
	results *check.Set
	consul  consul.States // nil: the node has no Consul
}

// restart restarts one task, all running tasks or, with AllTasks, also the finished ones.
func (h allocations) restart(ctx context.Context, _ *rpc.Call, req *message.AllocRestartRequest) (*message.GenericResponse, error) {
	e, err := h.allocs.Find(req.AllocID)
	if err != nil {
		return nil, err
	}
	if req.TaskName != "" {
		if req.AllTasks {
			return nil, apierror.Errorf(http.StatusBadRequest, "a task name and all tasks are mutually exclusive")
		}
		if _, err := h.allocs.Task(req.AllocID, req.TaskName); err != nil {
			return nil, err
		}
	}
	if req.AllTasks {
		err = e.Runner.RestartAll(ctx)
	} else {
		err = e.Runner.Restart(ctx, req.TaskName)
	}
	if err != nil {
		return nil, idle(err)
	}
	return &message.GenericResponse{}, nil
}

// idle turns the error of an operation that does not apply to the task into a 400.
func idle(err error) error {
	if taskrunner.NotApplicable(err) {
		return apierror.Errorf(http.StatusBadRequest, "%v", err)
	}
	return err
}

// signal sends a signal to one task or to all. An unknown signal name is refused before
// anything is sent.
func (h allocations) signal(_ context.Context, _ *rpc.Call, req *message.AllocSignalRequest) (*message.GenericResponse, error) {
	e, err := h.allocs.FindTask(req.AllocID, req.Task)
	if err != nil {
		return nil, err
	}
	if _, err := drivers.ParseSignal(req.Signal); err != nil {
		return nil, apierror.Errorf(http.StatusBadRequest, "unknown signal %q", req.Signal)
	}
	if err := e.Runner.Signal(req.Task, req.Signal); err != nil {
		return nil, idle(err)
	}
	return &message.GenericResponse{}, nil
}

// stats returns the resource usage of the tasks.
func (h allocations) stats(_ context.Context, _ *rpc.Call, req *message.AllocStatsRequest) (*message.AllocStatsResponse, error) {
	e, err := h.allocs.FindTask(req.AllocID, req.Task)
	if err != nil {
		return nil, err
	}
	usage, err := e.Runner.Stats(req.Task)
	if err != nil {
		return nil, err
	}
	return &message.AllocStatsResponse{Stats: usage}, nil
}

// collect removes a finished allocation.
func (h allocations) collect(ctx context.Context, _ *rpc.Call, req *message.AllocSpecificRequest) (*message.GenericResponse, error) {
	if err := h.allocs.Collect(ctx, req.AllocID); err != nil {
		return nil, err
	}
	return &message.GenericResponse{}, nil
}

// collectAll removes all finished allocations.
func (h allocations) collectAll(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.GenericResponse, error) {
	h.allocs.CollectAll()
	return &message.GenericResponse{}, nil
}

// checks returns the latest results of the checks of the allocation's services, and the states of those in Consul.
func (h allocations) checks(_ context.Context, _ *rpc.Call, req *message.AllocChecksRequest) (*message.AllocChecksResponse, error) {
	e, err := h.allocs.Find(req.AllocID)
	if err != nil {
		return nil, err
	}
	out := &message.AllocChecksResponse{Results: h.results.Results(req.AllocID)}
	if h.consul != nil {
		out.Consul = consul.Report(h.consul, e.Runner.Alloc())
	}
	return out, nil
}

// setPause pauses or runs a task against its schedule, or returns it to its schedule.
func (h allocations) setPause(_ context.Context, _ *rpc.Call, req *message.AllocPauseRequest) (*message.GenericResponse, error) {
	e, err := h.pausable(req.AllocID, req.Task)
	if err != nil {
		return nil, err
	}
	switch req.ScheduleState {
	case nomad.TaskScheduleStateForcePause, nomad.TaskScheduleStateForceRun, nomad.TaskScheduleStateSchedResume:
	default:
		return nil, apierror.Errorf(http.StatusBadRequest, "schedule state %q: use %s, %s or %s", req.ScheduleState,
			nomad.TaskScheduleStateForcePause, nomad.TaskScheduleStateForceRun, nomad.TaskScheduleStateSchedResume)
	}
	if err := e.Runner.Pause(req.Task, req.ScheduleState); err != nil {
		return nil, idle(err)
	}
	return &message.GenericResponse{}, nil
}

// getPause returns the state of a task's schedule.
func (h allocations) getPause(_ context.Context, _ *rpc.Call, req *message.AllocGetPauseStateRequest) (
	*message.AllocGetPauseStateResponse, error) {
	e, err := h.pausable(req.AllocID, req.Task)
	if err != nil {
		return nil, err
	}
	state, err := e.Runner.PauseState(req.Task)
	if err != nil {
		return nil, idle(err)
	}
	return &message.AllocGetPauseStateResponse{ScheduleState: state}, nil
}

// pausable returns an allocation that has the task.
func (h allocations) pausable(alloc, task string) (*allocs.Entry, error) {
	e, err := h.allocs.Find(alloc)
	if err != nil {
		return nil, err
	}
	if task == "" {
		return nil, apierror.Errorf(http.StatusBadRequest, "must provide task name")
	}
	_, err = h.allocs.Task(alloc, task)
	return e, err
}

// renderTemplates renders the templates of tasks again and applies their change modes.
func (h allocations) renderTemplates(ctx context.Context, _ *rpc.Call, req *message.AllocTemplatesRequest) (
	*message.AllocTemplatesResponse, error) {
	e, err := h.allocs.FindTask(req.AllocID, req.Task)
	if err != nil {
		return nil, err
	}
	tasks, err := e.Runner.RenderTemplates(ctx, req.Task)
	return templatesOf(tasks, err)
}

// diffTemplates renders the templates of tasks without writing them.
func (h allocations) diffTemplates(ctx context.Context, _ *rpc.Call, req *message.AllocTemplatesRequest) (
	*message.AllocTemplatesResponse, error) {
	e, err := h.allocs.FindTask(req.AllocID, req.Task)
	if err != nil {
		return nil, err
	}
	tasks, err := e.Runner.DiffTemplates(ctx, req.Task)
	return templatesOf(tasks, err)
}

func templatesOf(tasks map[string][]*message.TemplateRender, err error) (*message.AllocTemplatesResponse, error) {
	if err != nil {
		return nil, idle(err)
	}
	return &message.AllocTemplatesResponse{Tasks: tasks}, nil
}

// sandbox compares the sandboxes of an allocation's tasks with their declared policies.
func (h allocations) sandbox(ctx context.Context, _ *rpc.Call, req *message.AllocSandboxRequest) (*message.AllocSandboxResponse, error) {
	e, err := h.allocs.FindTask(req.AllocID, req.Task)
	if err != nil {
		return nil, err
	}
	tasks, err := e.Runner.Sandboxes(ctx, req.Task)
	if err != nil {
		return nil, idle(err)
	}
	return &message.AllocSandboxResponse{Tasks: tasks}, nil
}
