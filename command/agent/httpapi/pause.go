package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// pauseRoutes returns the routes of paused tasks.
func pauseRoutes() []web.Route {
	const pause = "/v1/client/allocation/:alloc_id/pause"
	return []web.Route{
		{Methods: "GET", Path: pause, CORS: true,
			Handle: web.Read("ClientAllocations.GetPauseState", func(r *web.Request, q *message.AllocGetPauseStateRequest) error {
				q.AllocID, q.Task = r.Param, r.Query.Get("task")
				return nil
			}, web.Full[message.AllocGetPauseStateResponse])},
		{Methods: "PUT POST", Path: pause, Call: web.Write("ClientAllocations.SetPauseState", allocPause, web.Full[message.GenericResponse])},
	}
}

// pauseStates maps the states of requests to those of tasks.
var pauseStates = map[string]nomad.TaskScheduleState{
	"pause": nomad.TaskScheduleStateForcePause, "run": nomad.TaskScheduleStateForceRun, "scheduled": nomad.TaskScheduleStateSchedResume,
}

func allocPause(r *web.Request, q *message.AllocPauseRequest) error {
	var b struct{ AllocID, Task, ScheduleState string }
	if err := r.Decode(&b); err != nil {
		return err
	}
	if err := web.SameID("Allocation", &b.AllocID, r.Param); err != nil {
		return err
	}
	state, ok := pauseStates[b.ScheduleState]
	if !ok {
		return apierror.Errorf(http.StatusBadRequest, "ScheduleState %q: use pause, run or scheduled", b.ScheduleState)
	}
	q.AllocID, q.Task, q.ScheduleState = b.AllocID, b.Task, state
	return nil
}
