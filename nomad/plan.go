package nomad

// The algorithms of the scheduler.
const (
	SchedulerAlgorithmBinpack            SchedulerAlgorithm = "binpack"
	SchedulerAlgorithmSpread             SchedulerAlgorithm = "spread"
	DefaultNodeLimitForFeasibilityChecks                    = 100
)

// Plan is the set of changes that a scheduler proposes for one evaluation. The applier checks it against newer state
// before the commit. EvalToken proves that the worker still holds the evaluation.
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

// PlanAnnotations describes the effects of a plan, for job plan.
type PlanAnnotations struct {
	DesiredTGUpdates map[string]*DesiredUpdates
	PreemptedAllocs  []*AllocListStub
}

// PlanJobTuple identifies the version of the job that a plan's allocations belong to. It replaces the complete job.
type PlanJobTuple struct {
	Namespace string
	ID        string
}

// PlanResult is the accepted part of a plan. If RefreshIndex is set, a part was rejected. The scheduler then retries with
// state at that index or newer.
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

// PreemptionConfig specifies which schedulers may stop allocations of lower priority.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool
	SysBatchSchedulerEnabled bool
	BatchSchedulerEnabled    bool
	ServiceSchedulerEnabled  bool
}
