package message

import "github.com/open-nomad/open-nomad/nomad"

// ApplyPlanResultsRequest is the Raft entry of an accepted plan. It contains the job once, not in each allocation.
type ApplyPlanResultsRequest struct {
	AllocsStopped     []*nomad.AllocationDiff
	AllocsUpdated     []*nomad.Allocation
	Evals             []*nomad.Evaluation
	Job               *nomad.Job
	Deployment        *nomad.Deployment
	DeploymentUpdates []*nomad.DeploymentStatusUpdate
	EvalID            string
	AllocsPreempted   []*nomad.AllocationDiff
	PreemptionEvals   []*nomad.Evaluation
	IneligibleNodes   []string
	UpdatedAt         int64
}

// PlanRequest is the request of Plan.Submit.
type PlanRequest struct {
	Plan *nomad.Plan
	WriteRequest
}

// PlanResponse is the reply of Plan.Submit.
type PlanResponse struct {
	Result *nomad.PlanResult
	WriteMeta
}
