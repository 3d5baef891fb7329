package message

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// ApplyDeploymentAllocHealthRequest is the Raft entry that sets the health of allocations. It contains the
// resulting updates of the deployment and the job, so that all are applied together.
type ApplyDeploymentAllocHealthRequest struct {
	DeploymentAllocHealthRequest
	Timestamp        time.Time
	DeploymentUpdate *nomad.DeploymentStatusUpdate
	Job              *nomad.Job
	Eval             *nomad.Evaluation
}

// ApplyDeploymentPromoteRequest is the Raft entry that promotes canaries, with the evaluation of the job.
type ApplyDeploymentPromoteRequest struct {
	DeploymentPromoteRequest
	Eval *nomad.Evaluation
}

// DeploymentAllocHealthRequest is the request of Deployment.SetAllocHealth.
type DeploymentAllocHealthRequest struct {
	DeploymentID           string
	HealthyAllocationIDs   []string
	UnhealthyAllocationIDs []string
	WriteRequest
}

// DeploymentDeleteRequest is the request of Deployment.Reap.
type DeploymentDeleteRequest struct {
	Deployments []string
	WriteRequest
}

// DeploymentFailRequest is the request of Deployment.Fail.
type DeploymentFailRequest struct {
	DeploymentID string
	WriteRequest
}

// DeploymentListRequest is the request of Deployment.List.
type DeploymentListRequest struct {
	QueryOptions
}

// DeploymentListResponse is the reply of Deployment.List and Job.Deployments.
type DeploymentListResponse struct {
	Deployments []*nomad.Deployment
	QueryMeta
}

// DeploymentPauseRequest is the request of Deployment.Pause.
type DeploymentPauseRequest struct {
	DeploymentID string
	Pause        bool
	WriteRequest
}

// DeploymentPromoteRequest is the request of Deployment.Promote.
type DeploymentPromoteRequest struct {
	DeploymentID string
	All          bool
	Groups       []string
	PromotedAt   int64
	WriteRequest
}

// DeploymentSpecificRequest is the request of Deployment.Allocations and Deployment.GetDeployment.
type DeploymentSpecificRequest struct {
	DeploymentID string
	QueryOptions
}

// DeploymentStatusUpdateRequest is the Raft entry that changes the status of a deployment. It contains the
// resulting evaluation and job.
type DeploymentStatusUpdateRequest struct {
	Eval             *nomad.Evaluation
	DeploymentUpdate *nomad.DeploymentStatusUpdate
	Job              *nomad.Job
}

// DeploymentUpdateResponse is the reply of Deployment.Cancel, Deployment.Fail, Deployment.Pause, Deployment.Promote,
// Deployment.Run, Deployment.SetAllocHealth and Deployment.Unblock.
type DeploymentUpdateResponse struct {
	EvalID                string
	EvalCreateIndex       uint64
	DeploymentModifyIndex uint64
	RevertedJobVersion    *uint64
	WriteMeta
}

// SingleDeploymentResponse is the reply of Deployment.GetDeployment and Job.LatestDeployment.
type SingleDeploymentResponse struct {
	Deployment *nomad.Deployment
	QueryMeta
}

// DeploymentUnblockRequest is the request of Deployment.Unblock.
type DeploymentUnblockRequest struct {
	DeploymentID string
	WriteRequest
}

// DeploymentCancelRequest is the request of Deployment.Cancel.
type DeploymentCancelRequest struct {
	DeploymentID string
	WriteRequest
}

// DeploymentRunRequest is the request of Deployment.Run.
type DeploymentRunRequest struct {
	DeploymentID string
	WriteRequest
}
