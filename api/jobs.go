package api

import "time"

// JobRegisterRequest is the body of PUT /v1/jobs.
type JobRegisterRequest struct {
	Submission        *JobSubmission
	Job               *Job
	EnforceIndex      bool   `json:",omitempty"`
	JobModifyIndex    uint64 `json:",omitempty"`
	PolicyOverride    bool   `json:",omitempty"`
	PreserveCounts    bool   `json:",omitempty"`
	PreserveResources bool   `json:",omitempty"`
	EvalPriority      int    `json:",omitempty"`
	WriteRequest
}

// JobRegisterResponse tells which evaluation a registration made.
type JobRegisterResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	Warnings        string
	QueryMeta
}

// RegisterOptions are the choices of Jobs.RegisterOpts. With EnforceIndex the job is
// stored only if its index still is ModifyIndex (0: only if it does not exist).
type RegisterOptions struct {
	EnforceIndex      bool
	ModifyIndex       uint64
	PolicyOverride    bool
	PreserveCounts    bool
	PreserveResources bool
	EvalPriority      int
	Submission        *JobSubmission
}

// JobValidateRequest is the body of PUT /v1/validate/job.
type JobValidateRequest struct {
	Job *Job
	WriteRequest
}

// JobValidateResponse lists what is wrong with a job.
type JobValidateResponse struct {
	DriverConfigValidated bool
	ValidationErrors      []string
	Error                 string
	Warnings              string
}

// JobPlanRequest is the body of PUT /v1/job/:id/plan.
type JobPlanRequest struct {
	Job            *Job
	Diff           bool
	PolicyOverride bool
	WriteRequest
}

// JobPlanResponse tells what registering a job would change.
type JobPlanResponse struct {
	JobModifyIndex     uint64
	CreatedEvals       []*Evaluation
	Diff               *JobDiff
	Annotations        *PlanAnnotations
	FailedTGAllocs     map[string]*AllocationMetric
	NextPeriodicLaunch time.Time
	Warnings           string
}

// PlanOptions are the choices of Jobs.PlanOpts.
type PlanOptions struct {
	Diff           bool
	PolicyOverride bool
}

// JobListStub is a job in a list.
type JobListStub struct {
	ID                string
	ParentID          string
	Name              string
	Namespace         string `json:",omitempty"`
	Datacenters       []string
	Type              string
	Priority          int
	Periodic          bool
	ParameterizedJob  bool
	Stop              bool
	Status            string
	StatusDescription string
	JobSummary        *JobSummary
	CreateIndex       uint64
	ModifyIndex       uint64
	JobModifyIndex    uint64
	SubmitTime        int64
	Meta              map[string]string `json:",omitempty"`
}

// JobListOptions chooses the optional fields of a job list.
type JobListOptions struct {
	Fields *JobListFields
}

// JobListFields names the optional fields of a job list.
type JobListFields struct {
	Meta bool
}

// JobSummary counts the allocations of a job by their state, a group at a time.
type JobSummary struct {
	JobID       string
	Namespace   string
	Summary     map[string]TaskGroupSummary
	Children    *JobChildrenSummary
	CreateIndex uint64
	ModifyIndex uint64
}

// JobChildrenSummary counts the children of a periodic or parameterized job by their status.
type JobChildrenSummary struct {
	Pending int64
	Running int64
	Dead    int64
}

// TaskGroupSummary counts the allocations of a group by their state.
type TaskGroupSummary struct {
	Queued   int
	Complete int
	Failed   int
	Running  int
	Starting int
	Lost     int
	Unknown  int
}

// JobDeregisterResponse tells which evaluation stopping a job made.
type JobDeregisterResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	QueryMeta
}

// DeregisterOptions are the choices of Jobs.DeregisterOpts.
type DeregisterOptions struct {
	Purge           bool
	Global          bool
	EvalPriority    int
	NoShutdownDelay bool
}

// JobEvaluateRequest is the body of PUT /v1/job/:id/evaluate.
type JobEvaluateRequest struct {
	JobID       string
	EvalOptions EvalOptions
	WriteRequest
}

// EvalOptions are the choices of a forced evaluation.
type EvalOptions struct {
	ForceReschedule bool
}

// JobDispatchRequest is the body of PUT /v1/job/:id/dispatch.
type JobDispatchRequest struct {
	JobID            string
	Payload          []byte
	Meta             map[string]string
	IdPrefixTemplate string
	Priority         int
}

// JobDispatchResponse tells which job a dispatch made.
type JobDispatchResponse struct {
	DispatchedJobID string
	EvalID          string
	EvalCreateIndex uint64
	JobCreateIndex  uint64
	WriteMeta
}

// DispatchOptions are the choices of Jobs.DispatchOpts.
type DispatchOptions struct {
	JobID            string
	Meta             map[string]string
	Payload          []byte
	IdPrefixTemplate string
	Priority         int
}

// JobsParseRequest is the body of PUT /v1/jobs/parse. Variables holds the text of a
// variable file.
type JobsParseRequest struct {
	JobHCL       string
	Variables    string
	Canonicalize bool
}

// JobSubmission is the source that a job was registered from. Format is hcl2 or json.
type JobSubmission struct {
	Source        string
	Format        string
	VariableFlags map[string]string
	Variables     string
}

// JobVersionsResponse lists the versions of a job, newest first, and what changed
// between them.
type JobVersionsResponse struct {
	Versions []*Job
	Diffs    []*JobDiff
	QueryMeta
}

// VersionsOptions are the choices of Jobs.VersionsOpts.
type VersionsOptions struct {
	Diffs       bool
	DiffTag     string
	DiffVersion *uint64
}

// JobStatusesRequest is the body of POST /v1/jobs/statuses.
type JobStatusesRequest struct {
	Jobs            []NamespacedID
	IncludeChildren bool
}

// NamespacedID names an object that lives in a namespace.
type NamespacedID struct {
	Namespace string
	ID        string
}

// JobStatusesJob is a job with all its allocations, as small as a web interface needs it.
type JobStatusesJob struct {
	NamespacedID
	Name             string
	Type             string
	NodePool         string
	Datacenters      []string
	Priority         int
	Version          uint64
	SubmitTime       int64
	ModifyIndex      uint64
	Allocs           []JobStatusesAlloc
	GroupCountSum    int
	ChildStatuses    []string
	ParentID         string
	LatestDeployment *JobStatusesLatestDeployment
	Stop             bool
	IsPack           bool
	Status           string
}

// JobStatusesAlloc is an allocation of a JobStatusesJob.
type JobStatusesAlloc struct {
	ID               string
	Group            string
	ClientStatus     string
	NodeID           string
	DeploymentStatus JobStatusesDeployment
	JobVersion       uint64
	FollowupEvalID   string
	HasPausedTask    bool
}

// JobStatusesDeployment is the deployment health of a JobStatusesAlloc.
type JobStatusesDeployment struct {
	Canary  bool
	Healthy *bool
}

// JobStatusesLatestDeployment is the newest deployment of a JobStatusesJob.
type JobStatusesLatestDeployment struct {
	ID                string
	IsActive          bool
	JobVersion        uint64
	Status            string
	StatusDescription string
	AllAutoPromote    bool
	RequiresPromotion bool
}

// WriteRequest carries region, namespace and token inside a body; query parameters
// and headers win over it.
type WriteRequest struct {
	Region    string
	Namespace string
	SecretID  string
}
