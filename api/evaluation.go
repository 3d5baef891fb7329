package api

import (
	"net/http"
	"net/url"
	"time"
)

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

// Evaluations is the handle for evaluations.
type Evaluations struct{ client *Client }

// Evaluations returns the handle for evaluations.
func (c *Client) Evaluations() *Evaluations { return &Evaluations{c} }

// List lists evaluations, oldest first.
func (e *Evaluations) List(q *QueryOptions) ([]*Evaluation, *QueryMeta, error) {
	return get[[]*Evaluation](e.client, "/v1/evaluations", q)
}

// PrefixList lists the evaluations whose ID begins with prefix.
func (e *Evaluations) PrefixList(prefix string) ([]*Evaluation, *QueryMeta, error) {
	return e.List(&QueryOptions{Prefix: prefix})
}

// Info returns an evaluation.
func (e *Evaluations) Info(evalID string, q *QueryOptions) (*Evaluation, *QueryMeta, error) {
	return get[*Evaluation](e.client, "/v1/evaluation/"+url.PathEscape(evalID), q)
}

// Allocations lists the allocations that an evaluation created or changed.
func (e *Evaluations) Allocations(evalID string, q *QueryOptions) ([]*AllocationListStub, *QueryMeta, error) {
	return get[[]*AllocationListStub](e.client, "/v1/evaluation/"+url.PathEscape(evalID)+"/allocations", q)
}

// Count counts the evaluations that match the filter of q.
func (e *Evaluations) Count(q *QueryOptions) (*EvalCountResponse, *QueryMeta, error) {
	return get[*EvalCountResponse](e.client, "/v1/evaluations/count", q)
}

// Delete deletes evaluations by ID. The evaluation broker must be paused.
func (e *Evaluations) Delete(evalIDs []string, q *WriteOptions) (*WriteMeta, error) {
	_, meta, err := e.DeleteOpts(&EvalDeleteRequest{EvalIDs: evalIDs}, q)
	return meta, err
}

// DeleteOpts deletes evaluations by ID or filter, and returns their number. The evaluation broker must be
// paused.
func (e *Evaluations) DeleteOpts(req *EvalDeleteRequest, q *WriteOptions) (*EvalDeleteResponse, *WriteMeta, error) {
	var out EvalDeleteResponse
	meta, err := e.client.write(call{http.MethodDelete, "/v1/evaluations", req, &out}, q)
	return &out, meta, err
}
