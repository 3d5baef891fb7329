package nomad

import "time"

// The statuses of a deployment.
const (
	DeploymentStatusRunning      = "running"
	DeploymentStatusPaused       = "paused"
	DeploymentStatusFailed       = "failed"
	DeploymentStatusSuccessful   = "successful"
	DeploymentStatusCancelled    = "cancelled"
	DeploymentStatusInitializing = "initializing"
	DeploymentStatusPending      = "pending"
	DeploymentStatusBlocked      = "blocked"
	DeploymentStatusUnblocking   = "unblocking"
)

// The descriptions of deployment statuses. Clients match these texts.
const (
	DeploymentStatusDescriptionRunning           = "Deployment is running"
	DeploymentStatusDescriptionPaused            = "Deployment is paused"
	DeploymentStatusDescriptionSuccessful        = "Deployment completed successfully"
	DeploymentStatusDescriptionStoppedJob        = "Cancelled because job is stopped"
	DeploymentStatusDescriptionNewerJob          = "Cancelled due to newer version of job"
	DeploymentStatusDescriptionFailedAllocations = "Failed due to unhealthy allocations"
	DeploymentStatusDescriptionProgressDeadline  = "Failed due to progress deadline"
	DeploymentStatusDescriptionFailedByUser      = "Deployment marked as failed"
)

// AllocDeploymentStatus is the health of an allocation in its deployment. Healthy is nil until the client or
// an operator sets it.
type AllocDeploymentStatus struct {
	Healthy     *bool
	Timestamp   time.Time
	Canary      bool
	ModifyIndex uint64
}

// Deployment is the rollout of one version of a job. The scheduler creates it, the FSM counts allocations,
// and the deployment watcher ends it.
type Deployment struct {
	ID                 string
	Namespace          string
	JobID              string
	JobVersion         uint64
	JobModifyIndex     uint64
	JobSpecModifyIndex uint64
	JobCreateIndex     uint64
	IsMultiregion      bool
	TaskGroups         map[string]*DeploymentState
	Status             string
	StatusDescription  string
	EvalPriority       int
	CreateIndex        uint64
	ModifyIndex        uint64
	CreateTime         int64
	ModifyTime         int64
}

// DeploymentState is the rollout of one group. ProgressDeadline is the longest time without a newly healthy
// allocation. RequireProgressBy is the end of this period.
type DeploymentState struct {
	AutoRevert        bool
	AutoPromote       bool
	ProgressDeadline  time.Duration
	RequireProgressBy time.Time
	Promoted          bool
	PlacedCanaries    []string
	DesiredCanaries   int
	DesiredTotal      int
	PlacedAllocs      int
	HealthyAllocs     int
	UnhealthyAllocs   int
}

// DeploymentStatusUpdate is a new status of a deployment and its description.
type DeploymentStatusUpdate struct {
	DeploymentID      string
	Status            string
	StatusDescription string
	UpdatedAt         int64
}
