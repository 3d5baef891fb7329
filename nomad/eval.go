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
	EvalTriggerNodeUpdate        = "node-update"
	EvalTriggerAllocStop         = "alloc-stop"
	EvalTriggerScheduled         = "scheduled"
	EvalTriggerRollingUpdate     = "rolling-update"
	EvalTriggerDeploymentWatcher = "deployment-watcher"
	EvalTriggerFailedFollowUp    = "failed-follow-up"
	EvalTriggerMaxPlans          = "max-plan-attempts"
	EvalTriggerRetryFailedAlloc  = "alloc-failure"
	EvalTriggerQueuedAllocs      = "queued-allocs"
	EvalTriggerPreemption        = "preemption"
	EvalTriggerReconnect         = "reconnect"
)

// EvalAckRequest is the request of Eval.Ack and Eval.Nack.
type EvalAckRequest struct {
	EvalID string
	Token  string
	WriteRequest
}

// EvalAllocationsResponse is the reply of Eval.Allocations.
type EvalAllocationsResponse struct {
	Allocations []*AllocListStub
	QueryMeta
}

// EvalCountRequest is the request of Eval.Count.
type EvalCountRequest struct {
	QueryOptions
}

// EvalCountResponse is the reply of Eval.Count.
type EvalCountResponse struct {
	Count int
	QueryMeta
}

// EvalDeleteRequest is the request of Eval.Delete.
type EvalDeleteRequest struct {
	EvalIDs []string
	Filter  string
	WriteRequest
}

// EvalDeleteResponse is the reply of Eval.Delete.
type EvalDeleteResponse struct {
	Count int
	WriteMeta
}

// EvalDequeueRequest is the request of Eval.Dequeue.
type EvalDequeueRequest struct {
	Schedulers       []string
	Timeout          time.Duration
	SchedulerVersion uint16
	WriteRequest
}

// EvalDequeueResponse is the reply of Eval.Dequeue.
type EvalDequeueResponse struct {
	Eval      *Evaluation
	Token     string
	WaitIndex uint64
	QueryMeta
}

// EvalListRequest is the request of Eval.List.
type EvalListRequest struct {
	FilterJobID      string
	FilterEvalStatus string
	QueryOptions
}

// EvalListResponse is the reply of Eval.List.
type EvalListResponse struct {
	Evaluations []*Evaluation
	QueryMeta
}

// EvalOptions are the options of a forced evaluation.
type EvalOptions struct {
	ForceReschedule bool
}

// EvalReapRequest is the request of Eval.Reap.
type EvalReapRequest struct {
	Evals         []string
	Allocs        []string
	Filter        string
	PerPage       int32
	NextToken     string
	UserInitiated bool
	WriteRequest
}

// EvalSpecificRequest is the request of Eval.Allocations and Eval.GetEval.
type EvalSpecificRequest struct {
	EvalID         string
	IncludeRelated bool
	QueryOptions
}

// EvalFinishRequest is the request of Eval.Finish (open-nomad only). Evals holds the finished evaluation first,
// then its follow-up evaluations. The reply is an EvalDequeueResponse. It contains the next ready evaluation
// of the types in Schedulers, if any.
type EvalFinishRequest struct {
	Evals      []*Evaluation
	EvalToken  string
	Schedulers []string
	WriteRequest
}

// EvalUpdateRequest is the request of Eval.Create, Eval.Reblock and Eval.Update.
type EvalUpdateRequest struct {
	Evals     []*Evaluation
	EvalToken string
	WriteRequest
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

// SingleEvalResponse is the reply of Eval.GetEval.
type SingleEvalResponse struct {
	Eval *Evaluation
	QueryMeta
}
