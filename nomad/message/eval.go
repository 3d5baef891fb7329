package message

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// EvalAckRequest is the request of Eval.Ack and Eval.Nack.
type EvalAckRequest struct {
	EvalID string
	Token  string
	WriteRequest
}

// EvalAllocationsResponse is the reply of Eval.Allocations.
type EvalAllocationsResponse struct {
	Allocations []*nomad.AllocListStub
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
	Eval      *nomad.Evaluation
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
	Evaluations []*nomad.Evaluation
	QueryMeta
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
	Evals      []*nomad.Evaluation
	EvalToken  string
	Schedulers []string
	WriteRequest
}

// EvalUpdateRequest is the request of Eval.Create, Eval.Reblock and Eval.Update.
type EvalUpdateRequest struct {
	Evals     []*nomad.Evaluation
	EvalToken string
	WriteRequest
}

// SingleEvalResponse is the reply of Eval.GetEval.
type SingleEvalResponse struct {
	Eval *nomad.Evaluation
	QueryMeta
}
