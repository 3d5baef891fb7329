package message

import "github.com/open-nomad/open-nomad/nomad"

// JobActionListRequest is the request of Job.GetActions.
type JobActionListRequest struct {
	JobID string
	QueryOptions
}

// JobAction is an action of a job with the task that it runs in.
type JobAction struct {
	nomad.Action
	TaskName      string
	TaskGroupName string
}

// JobActionListResponse is the reply of Job.GetActions.
type JobActionListResponse struct {
	Actions []*JobAction
	QueryMeta
}
