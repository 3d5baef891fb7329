package client

import (
	"context"
	"net/http"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// allocSetPause pauses or runs a task against its schedule, or returns it to its schedule.
func (c *Client) allocSetPause(_ context.Context, _ *rpc.Call, req *message.AllocPauseRequest) (*message.GenericResponse, error) {
	h, err := c.pausable(req.AllocID, req.Task)
	if err != nil {
		return nil, err
	}
	switch req.ScheduleState {
	case nomad.TaskScheduleStateForcePause, nomad.TaskScheduleStateForceRun, nomad.TaskScheduleStateSchedResume:
	default:
		return nil, nomad.Errorf(http.StatusBadRequest, "schedule state %q: use %s, %s or %s", req.ScheduleState,
			nomad.TaskScheduleStateForcePause, nomad.TaskScheduleStateForceRun, nomad.TaskScheduleStateSchedResume)
	}
	if err := h.runner.Pause(req.Task, req.ScheduleState); err != nil {
		return nil, idle(err)
	}
	return &message.GenericResponse{}, nil
}

// allocGetPause returns the state of a task's schedule.
func (c *Client) allocGetPause(_ context.Context, _ *rpc.Call, req *message.AllocGetPauseStateRequest) (*message.AllocGetPauseStateResponse, error) {
	h, err := c.pausable(req.AllocID, req.Task)
	if err != nil {
		return nil, err
	}
	state, err := h.runner.PauseState(req.Task)
	if err != nil {
		return nil, idle(err)
	}
	return &message.AllocGetPauseStateResponse{ScheduleState: state}, nil
}

// pausable returns an allocation that has the task.
func (c *Client) pausable(alloc, task string) (*held, error) {
	h, err := c.allocs.find(alloc)
	if err != nil {
		return nil, err
	}
	if task == "" {
		return nil, nomad.Errorf(http.StatusBadRequest, "must provide task name")
	}
	_, err = c.allocs.task(alloc, task)
	return h, err
}
