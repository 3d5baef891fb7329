package api

import "time"

// Statuses of an evaluation.
const (
	EvalStatusBlocked   = "blocked"
	EvalStatusPending   = "pending"
	EvalStatusComplete  = "complete"
	EvalStatusFailed    = "failed"
	EvalStatusCancelled = "canceled"
)

// Evaluation is a unit of work for the scheduler: to reconcile the allocations of a job
// with its specification.
type Evaluation struct {
	ID                      string
	Priority                int
	Type                    string
	TriggeredBy             string
	Namespace               string
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
	FailedTGAllocs          map[string]*AllocationMetric
	PlanAnnotations         *PlanAnnotations
	ClassEligibility        map[string]bool
	EscapedComputedClass    bool
	QuotaLimitReached       string
	MissingNonNodeResources []string
	AnnotatePlan            bool
	QueuedAllocations       map[string]int
	SnapshotIndex           uint64
	CreateIndex             uint64
	ModifyIndex             uint64
	CreateTime              int64
	ModifyTime              int64
}

// EvalDeleteRequest deletes evaluations by ID or by filter, not both.
type EvalDeleteRequest struct {
	EvalIDs []string `json:",omitempty"`
	Filter  string   `json:",omitempty"`
}

// EvalDeleteResponse contains the number of deleted evaluations.
type EvalDeleteResponse struct {
	Count int
}

// EvalCountResponse contains the number of evaluations.
type EvalCountResponse struct {
	Count int
}

// EvaluationStub is the list entry of a related evaluation.
type EvaluationStub struct {
	ID                string
	Priority          int
	Type              string
	TriggeredBy       string
	Namespace         string
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
