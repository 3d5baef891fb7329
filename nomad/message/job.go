package message

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// JobAllocationsResponse is the reply of Job.Allocations.
type JobAllocationsResponse struct {
	Allocations []*nomad.AllocListStub
	QueryMeta
}

// JobApplyTagRequest is the request of Job.TagVersion, and the Raft entry. Without a tag, it removes the tag Name.
// Latest selects the current version instead of Version.
type JobApplyTagRequest struct {
	JobID   string
	Name    string
	Tag     *nomad.JobVersionTag
	Version uint64
	Latest  bool
	WriteRequest
}

// JobBatchDeregisterRequest is the request of Job.BatchDeregister.
type JobBatchDeregisterRequest struct {
	Jobs       map[nomad.NamespacedID]*JobDeregisterOptions
	SubmitTime int64
	WriteRequest
}

// JobBatchDeregisterResponse is the reply of Job.BatchDeregister.
type JobBatchDeregisterResponse struct {
	QueryMeta
}

// JobDeregisterRequest is the request of Job.Deregister.
type JobDeregisterRequest struct {
	JobID           string
	Purge           bool
	Global          bool
	EvalPriority    int
	NoShutdownDelay bool
	Eval            *nomad.Evaluation
	SubmitTime      int64
	WriteRequest
}

// JobDeregisterResponse is the reply of Job.Deregister.
type JobDeregisterResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	VolumeEvalID    string
	VolumeEvalIndex uint64
	QueryMeta
}

// JobDispatchRequest is the request of Job.Dispatch.
type JobDispatchRequest struct {
	JobID   string
	Payload []byte
	Meta    map[string]string
	WriteRequest
	IdPrefixTemplate string
	Priority         int
}

// JobDispatchResponse is the reply of Job.Dispatch.
type JobDispatchResponse struct {
	DispatchedJobID string
	EvalID          string
	EvalCreateIndex uint64
	JobCreateIndex  uint64
	WriteMeta
}

// JobEvaluateRequest is the request of Job.Evaluate.
type JobEvaluateRequest struct {
	JobID       string
	EvalOptions nomad.EvalOptions
	WriteRequest
}

// JobEvaluationsResponse is the reply of Job.Evaluations.
type JobEvaluationsResponse struct {
	Evaluations []*nomad.Evaluation
	QueryMeta
}

// JobListRequest is the request of Job.List.
type JobListRequest struct {
	QueryOptions
	Fields *nomad.JobStubFields
}

// JobListResponse is the reply of Job.List.
type JobListResponse struct {
	Jobs []*nomad.JobListStub
	QueryMeta
}

// JobPlanRequest is the request of Job.Plan.
type JobPlanRequest struct {
	Job            *nomad.Job
	Diff           bool
	PolicyOverride bool
	WriteRequest
}

// JobPlanResponse is the reply of Job.Plan.
type JobPlanResponse struct {
	Annotations        *nomad.PlanAnnotations
	FailedTGAllocs     map[string]*nomad.AllocMetric
	JobModifyIndex     uint64
	CreatedEvals       []*nomad.Evaluation
	Diff               *JobDiff
	NextPeriodicLaunch time.Time
	Warnings           string
	// Isolation holds the isolation levels of the tasks (open-nomad only).
	Isolation []*TaskIsolation `json:",omitempty" codec:",omitempty"`
	// Vault describes how the tasks log in to Vault (open-nomad only).
	Vault []*VaultLogin `json:",omitempty" codec:",omitempty"`
	// VaultOmitted is the number of tasks that log in and that Vault does not list (open-nomad only).
	VaultOmitted int `json:",omitempty" codec:",omitempty"`
	WriteMeta
}

// TaskIsolation is the isolation level of a task in a plan.
type TaskIsolation struct {
	TaskGroup string
	Task      string
	Level     string         // the most that any node gives the task
	Nodes     map[string]int // by level: the nodes that can run the task, and give it that level
}

// JobRegisterRequest is the request of Job.Register.
type JobRegisterRequest struct {
	Submission        *nomad.JobSubmission
	Job               *nomad.Job
	EnforceIndex      bool
	JobModifyIndex    uint64
	PreserveCounts    bool
	PreserveResources bool
	PolicyOverride    bool
	EvalPriority      int
	Eval              *nomad.Evaluation
	Deployment        *nomad.Deployment
	WriteRequest
}

// JobRegisterResponse is the reply of Job.Evaluate, Job.Register, Job.Revert and Job.Scale.
type JobRegisterResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	Warnings        string
	QueryMeta
}

// JobRevertRequest is the request of Job.Revert. EnforcePriorVersion is the expected current version, or nil.
type JobRevertRequest struct {
	JobID               string
	JobVersion          uint64
	EnforcePriorVersion *uint64
	WriteRequest
}

// JobSpecificRequest is the request of Job.Allocations, Job.Deployments, Job.Evaluations, Job.GetJob and
// Job.LatestDeployment.
type JobSpecificRequest struct {
	JobID string
	All   bool
	QueryOptions
}

// JobStabilityRequest is the request of Job.Stable.
type JobStabilityRequest struct {
	JobID      string
	JobVersion uint64
	Stable     bool
	WriteRequest
}

// JobStabilityResponse is the reply of Job.Stable.
type JobStabilityResponse struct {
	WriteMeta
}

// JobSubmissionRequest is the request of Job.GetJobSubmission.
type JobSubmissionRequest struct {
	JobID   string
	Version uint64
	QueryOptions
}

// JobSubmissionResponse is the reply of Job.GetJobSubmission.
type JobSubmissionResponse struct {
	Submission *nomad.JobSubmission
	QueryMeta
}

// JobSummaryRequest is the request of Job.Summary.
type JobSummaryRequest struct {
	JobID string
	QueryOptions
}

// JobSummaryResponse is the reply of Job.Summary.
type JobSummaryResponse struct {
	JobSummary *nomad.JobSummary
	QueryMeta
}

// JobTagResponse is the reply of Job.TagVersion.
type JobTagResponse struct {
	Name        string
	Description string
	TaggedTime  int64
	QueryMeta
}

// JobValidateRequest is the request of Job.Validate.
type JobValidateRequest struct {
	Job *nomad.Job
	WriteRequest
}

// JobValidateResponse is the reply of Job.Validate.
type JobValidateResponse struct {
	DriverConfigValidated bool
	ValidationErrors      []string
	Error                 string
	Warnings              string
}

// JobVersionsRequest is the request of Job.GetJobVersions.
type JobVersionsRequest struct {
	JobID       string
	Diffs       bool
	DiffVersion *uint64
	DiffTagName string
	QueryOptions
}

// JobVersionsResponse is the reply of Job.GetJobVersions.
type JobVersionsResponse struct {
	Versions []*nomad.Job
	Diffs    []*JobDiff
	QueryMeta
}

// SingleJobResponse is the reply of Job.GetJob.
type SingleJobResponse struct {
	Job *nomad.Job
	QueryMeta
}

// JobDeregisterOptions are the options for one job of Job.BatchDeregister.
type JobDeregisterOptions struct {
	Purge bool
}
