package nomad

// How the scheduler places.
const (
	SchedulerAlgorithmBinpack            SchedulerAlgorithm = "binpack"
	SchedulerAlgorithmSpread             SchedulerAlgorithm = "spread"
	DefaultNodeLimitForFeasibilityChecks                    = 100
)

// ApplyPlanResultsRequest holds the fields of an apply plan results request.
type ApplyPlanResultsRequest struct {
	AllocsStopped     []*AllocationDiff
	AllocsUpdated     []*Allocation
	Evals             []*Evaluation
	Job               *Job
	Deployment        *Deployment
	DeploymentUpdates []*DeploymentStatusUpdate
	EvalID            string
	AllocsPreempted   []*AllocationDiff
	PreemptionEvals   []*Evaluation
	IneligibleNodes   []string
	UpdatedAt         int64
}

// Plan holds the fields of a plan.
type Plan struct {
	//lint:ignore U1000 read by the codec: zero fields stay off the wire
	_struct           bool `codec:",omitempty"`
	EvalID            string
	EvalToken         string
	Priority          int
	AllAtOnce         bool
	Job               *Job
	JobInfo           *PlanJobTuple
	NodeUpdate        map[string][]*Allocation
	NodeAllocation    map[string][]*Allocation
	Annotations       *PlanAnnotations
	Deployment        *Deployment
	DeploymentUpdates []*DeploymentStatusUpdate
	NodePreemptions   map[string][]*Allocation
	SnapshotIndex     uint64
}

// PlanAnnotations holds the fields of a plan annotations.
type PlanAnnotations struct {
	DesiredTGUpdates map[string]*DesiredUpdates
	PreemptedAllocs  []*AllocListStub
}

// PlanJobTuple holds the fields of a plan job tuple.
type PlanJobTuple struct {
	Namespace string
	ID        string
}

// PlanRequest is the request of Plan.Submit.
type PlanRequest struct {
	Plan *Plan
	WriteRequest
}

// PlanResponse is the reply of Plan.Submit.
type PlanResponse struct {
	Result *PlanResult
	WriteMeta
}

// PlanResult holds the fields of a plan result.
type PlanResult struct {
	NodeUpdate        map[string][]*Allocation
	NodeAllocation    map[string][]*Allocation
	Deployment        *Deployment
	DeploymentUpdates []*DeploymentStatusUpdate
	NodePreemptions   map[string][]*Allocation
	RejectedNodes     []string
	IneligibleNodes   []string
	RefreshIndex      uint64
	AllocIndex        uint64
}

// PreemptionConfig holds the fields of a preemption config.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool
	SysBatchSchedulerEnabled bool
	BatchSchedulerEnabled    bool
	ServiceSchedulerEnabled  bool
}
