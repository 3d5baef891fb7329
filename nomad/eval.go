package nomad

import "time"

// The names of core jobs. Evaluations of type _core run them.
const (
	CoreJobEvalGC               = "eval-gc"
	CoreJobNodeGC               = "node-gc"
	CoreJobJobGC                = "job-gc"
	CoreJobDeploymentGC         = "deployment-gc"
	CoreJobRootKeyRotateOrGC    = "root-key-rotate-gc"
	CoreJobOneTimeTokenGC       = "one-time-token-gc"
	CoreJobLocalTokenExpiredGC  = "local-token-expired-gc"
	CoreJobGlobalTokenExpiredGC = "global-token-expired-gc"
	CoreJobVariablesRekey       = "variables-rekey"
	CoreJobCSIVolumeClaimGC     = "csi-volume-claim-gc"
	CoreJobCSIPluginGC          = "csi-plugin-gc"
	CoreJobForceGC              = "force-gc"
	CoreJobPriority             = 32767
)

// The statuses of an evaluation.
const (
	EvalStatusBlocked   = "blocked"
	EvalStatusPending   = "pending"
	EvalStatusComplete  = "complete"
	EvalStatusFailed    = "failed"
	EvalStatusCancelled = "canceled"
)

// The triggers of an evaluation.
const (
	EvalTriggerJobRegister       = "job-register"
	EvalTriggerJobDeregister     = "job-deregister"
	EvalTriggerPeriodicJob       = "periodic-job"
	EvalTriggerScaling           = "job-scaling"
	EvalTriggerNodeUpdate        = "node-update"
	EvalTriggerNodeDrain         = "node-drain"
	EvalTriggerAllocStop         = "alloc-stop"
	EvalTriggerScheduled         = "scheduled"
	EvalTriggerRollingUpdate     = "rolling-update"
	EvalTriggerDeploymentWatcher = "deployment-watcher"
	EvalTriggerFailedFollowUp    = "failed-follow-up"
	EvalTriggerMaxPlans          = "max-plan-attempts"
	EvalTriggerRetryFailedAlloc  = "alloc-failure"
	EvalTriggerAllocReschedule   = "alloc-reschedule"
	EvalTriggerQueuedAllocs      = "queued-allocs"
	EvalTriggerPreemption        = "preemption"
	EvalTriggerReconnect         = "reconnect"

	EvalTriggerMaxDisconnectTimeout = "max-disconnect-timeout"
)

// EvalOptions are the options of a forced evaluation.
type EvalOptions struct {
	ForceReschedule bool
}

// Evaluation is a unit of work for the scheduler: compare a job with its allocations and reconcile them. A change
// that affects scheduling creates one in the same Raft entry. The worker that dequeued it writes the result.
// Times are Unix nanoseconds. Wait is a duration.
type Evaluation struct {
	//lint:ignore U1000 read by the codec: zero fields stay off the wire
	_struct                 bool `codec:",omitempty"`
	ID                      string
	Namespace               string
	Priority                int
	Type                    string
	TriggeredBy             string
	JobID                   string
	JobModifyIndex          uint64
	NodeID                  string
	NodeModifyIndex         uint64
	DeploymentID            string
	Status                  string
	StatusDescription       string
	Wait                    time.Duration
	WaitUntil               time.Time
	NextEval                string
	PreviousEval            string
	BlockedEval             string
	RelatedEvals            []*EvaluationStub
	FailedTGAllocs          map[string]*AllocMetric
	PlanAnnotations         *PlanAnnotations
	ClassEligibility        map[string]bool
	QuotaLimitReached       string
	MissingNonNodeResources []string
	EscapedComputedClass    bool
	AnnotatePlan            bool
	QueuedAllocations       map[string]int
	LeaderACL               string
	SnapshotIndex           uint64
	CreateIndex             uint64
	ModifyIndex             uint64
	CreateTime              int64
	ModifyTime              int64
}

// NewEval returns a pending evaluation of a job. The caller sets JobModifyIndex if the scheduler must know
// the version that the evaluation is for.
func NewEval(job *Job, trigger string, now time.Time) *Evaluation {
	return &Evaluation{
		ID: NewID(), Namespace: job.Namespace, Priority: job.Priority, Type: job.Type, TriggeredBy: trigger, JobID: job.ID,
		Status: EvalStatusPending, CreateTime: now.UnixNano(), ModifyTime: now.UnixNano(),
	}
}

// Next returns a pending evaluation, with the given ID, that continues the work of e.
func (e *Evaluation) Next(id, trigger string, now time.Time) *Evaluation {
	return &Evaluation{
		ID: id, Namespace: e.Namespace, Priority: e.Priority, Type: e.Type, TriggeredBy: trigger,
		JobID: e.JobID, JobModifyIndex: e.JobModifyIndex, PreviousEval: e.ID,
		Status: EvalStatusPending, CreateTime: now.UnixNano(), ModifyTime: now.UnixNano(),
	}
}

// EvaluationStub is the short form of an evaluation in the list of related evaluations.
type EvaluationStub struct {
	ID                string
	Namespace         string
	Priority          int
	Type              string
	TriggeredBy       string
	JobID             string
	NodeID            string
	DeploymentID      string
	Status            string
	StatusDescription string
	WaitUntil         time.Time
	NextEval          string
	PreviousEval      string
	BlockedEval       string
	CreateIndex       uint64
	ModifyIndex       uint64
	CreateTime        int64
	ModifyTime        int64
}
