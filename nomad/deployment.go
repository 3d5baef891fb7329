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
	DeploymentStatusDescriptionNeedsPromotion    = "Deployment is running but requires manual promotion"
	DeploymentStatusDescriptionAutoPromotion     = "Deployment is running pending automatic promotion"
	DeploymentStatusDescriptionPaused            = "Deployment is paused"
	DeploymentStatusDescriptionSuccessful        = "Deployment completed successfully"
	DeploymentStatusDescriptionStoppedJob        = "Cancelled because job is stopped"
	DeploymentStatusDescriptionNewerJob          = "Cancelled due to newer version of job"
	DeploymentStatusDescriptionFailedAllocations = "Failed due to unhealthy allocations"
	DeploymentStatusDescriptionProgressDeadline  = "Failed due to progress deadline"
	DeploymentStatusDescriptionFailedByUser      = "Deployment marked as failed"
	DeploymentStatusDescriptionCancelledByUser   = "Cancelled by a user"
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

// RequiresPromotion reports whether the group has canaries that are not promoted.
func (s *DeploymentState) RequiresPromotion() bool { return s.DesiredCanaries > 0 && !s.Promoted }

// Needs returns how many healthy allocations the group needs for its next step: its canaries until they are
// promoted, then all.
func (s *DeploymentState) Needs() int {
	if s.RequiresPromotion() {
		return s.DesiredCanaries
	}
	return max(s.DesiredTotal, s.DesiredCanaries)
}

// Complete reports whether the group has all its healthy allocations and does not wait for a promotion.
func (s *DeploymentState) Complete() bool {
	return !s.RequiresPromotion() && s.HealthyAllocs >= s.Needs()
}

// RequiresPromotion reports whether a group has canaries that are not promoted.
func (d *Deployment) RequiresPromotion() bool {
	for _, s := range d.TaskGroups {
		if s.RequiresPromotion() {
			return true
		}
	}
	return false
}

// PromotesItself reports whether all groups that wait for a promotion have auto_promote. It is false if no group
// waits.
func (d *Deployment) PromotesItself() bool {
	for _, s := range d.TaskGroups {
		if s.RequiresPromotion() && !s.AutoPromote {
			return false
		}
	}
	return d.RequiresPromotion()
}

// RunningDescription returns the description of the deployment while it runs.
func (d *Deployment) RunningDescription() string {
	switch {
	case d.PromotesItself():
		return DeploymentStatusDescriptionAutoPromotion
	case d.RequiresPromotion():
		return DeploymentStatusDescriptionNeedsPromotion
	}
	return DeploymentStatusDescriptionRunning
}

// IsCanary reports whether the allocation is a canary that is not promoted.
func (a *Allocation) IsCanary() bool { return a.DeploymentStatus != nil && a.DeploymentStatus.Canary }

// DeploymentStatusUpdate is a new status of a deployment and its description.
type DeploymentStatusUpdate struct {
	DeploymentID      string
	Status            string
	StatusDescription string
	UpdatedAt         int64
}

// NewestStable returns the version that a failed deployment reverts to, among the versions of a job from the newest to
// the oldest, or nil. It is the newest stable version that is not stopped.
func NewestStable(versions []*Job) *Job {
	for _, v := range versions {
		if v.Stable && !v.Stopped() {
			return v
		}
	}
	return nil
}
