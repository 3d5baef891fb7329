package nomad

// How the scheduler places.
const (
	SchedulerAlgorithmBinpack            SchedulerAlgorithm = "binpack"
	SchedulerAlgorithmSpread             SchedulerAlgorithm = "spread"
	DefaultNodeLimitForFeasibilityChecks                    = 100
)

// ApplyPlanResultsRequest is the Raft entry of a plan: what the applier accepted,
// with the job beside it once instead of in each allocation.
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

// Plan is what a scheduler wants to change for one evaluation. The applier checks it
// against newer state before it is committed. EvalToken proves that the evaluation
// is still the worker's.
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

// PlanAnnotations tells what a plan would do, for job plan.
type PlanAnnotations struct {
	DesiredTGUpdates map[string]*DesiredUpdates
	PreemptedAllocs  []*AllocListStub
}

// PlanJobTuple names the version of a job that a plan's allocations belong to,
// instead of the whole job.
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

// PlanResult is what the applier accepted of a plan. With a RefreshIndex not
// everything was: the scheduler tries again with state of that index or newer.
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

// PreemptionConfig says which schedulers may stop allocations of lower priority.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool
	SysBatchSchedulerEnabled bool
	BatchSchedulerEnabled    bool
	ServiceSchedulerEnabled  bool
}
