package api

import "time"

// RegisterEnforceIndexErrPrefix begins the error of a registration with EnforceIndex whose
// JobModifyIndex is not the current one.
const RegisterEnforceIndexErrPrefix = "Enforcing job modify index"

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

// JobRegisterResponse contains the ID of the evaluation that a registration created.
type JobRegisterResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	Warnings        string
	QueryMeta
}

// JobValidateRequest is the body of PUT /v1/validate/job.
type JobValidateRequest struct {
	Job *Job
	WriteRequest
}

// JobValidateResponse lists the errors and warnings of a job.
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

// JobPlanResponse describes the changes that a registration would make.
type JobPlanResponse struct {
	JobModifyIndex     uint64
	CreatedEvals       []*Evaluation
	Diff               *JobDiff
	Annotations        *PlanAnnotations
	FailedTGAllocs     map[string]*AllocationMetric
	NextPeriodicLaunch time.Time
	Warnings           string
	Isolation          []*TaskIsolation `json:",omitempty"` // only in open-nomad
	Vault              []*VaultLogin    `json:",omitempty"` // only in open-nomad
	VaultOmitted       int              `json:",omitempty"` // tasks that log in and that Vault does not list
}

// TaskIsolation is the isolation level of a task in a plan.
type TaskIsolation struct {
	TaskGroup string
	Task      string
	Level     string         // the most that any node gives the task
	Nodes     map[string]int // by level: the nodes that can run the task, and give it that level
}

// JobListStub is the list entry of a job.
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

// JobSummary is the number of allocations of a job by group and state.
type JobSummary struct {
	JobID       string
	Namespace   string
	Summary     map[string]TaskGroupSummary
	Children    *JobChildrenSummary
	CreateIndex uint64
	ModifyIndex uint64
}

// JobChildrenSummary is the number of children of a periodic or parameterized job by status.
type JobChildrenSummary struct {
	Pending int64
	Running int64
	Dead    int64
}

// TaskGroupSummary is the number of allocations of a group by state.
type TaskGroupSummary struct {
	Queued   int
	Complete int
	Failed   int
	Running  int
	Starting int
	Lost     int
	Unknown  int
}

// JobDeregisterResponse contains the ID of the evaluation that a deregistration created.
type JobDeregisterResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	QueryMeta
}

// JobDeregisterRequest is the body of PUT /v1/jobs/stop (open-nomad only).
type JobDeregisterRequest struct {
	JobID           string
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

// EvalOptions are the options of a forced evaluation.
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

// JobDispatchResponse contains the ID of the dispatched job.
type JobDispatchResponse struct {
	DispatchedJobID string
	EvalID          string
	EvalCreateIndex uint64
	JobCreateIndex  uint64
	WriteMeta
}

// PeriodicForceResponse contains the ID of the evaluation of a launch.
type PeriodicForceResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	WriteMeta
}

// JobsParseRequest is the body of PUT /v1/jobs/parse. Variables is the content of a
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

// JobVersionsResponse lists the versions of a job, newest first, and their diffs.
type JobVersionsResponse struct {
	Versions []*Job
	Diffs    []*JobDiff
	QueryMeta
}

// JobStatusesRequest is the body of POST /v1/jobs/statuses.
type JobStatusesRequest struct {
	Jobs            []NamespacedID
	IncludeChildren bool
}

// NamespacedID is the ID of an object in a namespace.
type NamespacedID struct {
	Namespace string
	ID        string
}

// JobStatusesJob is a job with all its allocations, with the fields for a web interface.
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

// WriteRequest is the region, namespace and token in a request body. Query parameters and
// headers take precedence.
type WriteRequest struct {
	Region    string
	Namespace string
	SecretID  string
}

// JobRevertRequest is the body of PUT /v1/job/:id/revert. EnforcePriorVersion is the expected current version, or nil.
type JobRevertRequest struct {
	JobID               string
	JobVersion          uint64
	EnforcePriorVersion *uint64
	WriteRequest
}

// TagVersionRequest is the body of PUT /v1/job/:id/versions/:tag/tag. Latest selects the current version.
type TagVersionRequest struct {
	Version     uint64
	Latest      bool
	Description string
	WriteRequest
}

// JobTagResponse contains the tag that was set or removed.
type JobTagResponse struct {
	Name        string
	Description string
	TaggedTime  int64
	QueryMeta
}

// JobStabilityRequest is the body of PUT /v1/job/:id/stable.
type JobStabilityRequest struct {
	JobID      string
	JobVersion uint64
	Stable     bool
	WriteRequest
}

// JobStabilityResponse is the response of PUT /v1/job/:id/stable.
type JobStabilityResponse struct {
	JobModifyIndex uint64
	WriteMeta
}
