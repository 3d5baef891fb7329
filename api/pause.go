package api

// AllocPauseRequest is the body of PUT /v1/client/allocation/:id/pause. The state is pause, run or scheduled.
type AllocPauseRequest struct {
	Task          string
	ScheduleState string
}

// AllocGetPauseResponse is the reply of GET /v1/client/allocation/:id/pause.
type AllocGetPauseResponse struct {
	ScheduleState string
}
