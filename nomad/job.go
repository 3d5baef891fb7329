package nomad

import "time"

// Types, statuses and bounds of jobs.
const (
	RegisterEnforceIndexErrPrefix = "Enforcing job modify index"
	JobTypeCore                   = "_core"
	JobTypeService                = "service"
	JobTypeBatch                  = "batch"
	JobTypeSystem                 = "system"
	JobTypeSysBatch               = "sysbatch"
	JobStatusPending              = "pending"
	JobStatusRunning              = "running"
	JobStatusDead                 = "dead"
	JobMinPriority                = 1
	JobDefaultPriority            = 50
	JobDefaultMaxPriority         = 100
	JobMaxPriority                = 32766
	JobDefaultMaxCount            = 50000
	JobDefaultTrackedVersions     = 6
	JobTrackedScalingEvents       = 20
	PeriodicSpecCron              = "cron"
	PeriodicSpecTest              = "_internal_test"
	PeriodicLaunchSuffix          = "/periodic-"
	DispatchPayloadForbidden      = "forbidden"
	DispatchPayloadOptional       = "optional"
	DispatchPayloadRequired       = "required"
	DispatchLaunchSuffix          = "/dispatch-"
)

// DispatchPayloadConfig holds the fields of a dispatch payload config.
type DispatchPayloadConfig struct {
	File string
}

// Job holds the fields of a job.
type Job struct {
	Stop                     bool
	Region                   string
	Namespace                string
	ID                       string
	ParentID                 string
	Name                     string
	Type                     string
	Priority                 int
	AllAtOnce                bool
	Datacenters              []string
	NodePool                 string
	Constraints              []*Constraint
	Affinities               []*Affinity
	Spreads                  []*Spread
	TaskGroups               []*TaskGroup
	Update                   UpdateStrategy
	Multiregion              *Multiregion
	Periodic                 *PeriodicConfig
	ParameterizedJob         *ParameterizedJobConfig
	Dispatched               bool
	DispatchIdempotencyToken string
	Payload                  []byte
	Meta                     map[string]string
	ConsulNamespace          string
	VaultNamespace           string
	NomadTokenID             string
	Status                   string
	StatusDescription        string
	Stable                   bool
	Version                  uint64
	SubmitTime               int64
	CreateIndex              uint64
	ModifyIndex              uint64
	JobModifyIndex           uint64
	UI                       *JobUIConfig
	VersionTag               *JobVersionTag
}

// JobAllocationsResponse is the reply of Job.Allocations.
type JobAllocationsResponse struct {
	Allocations []*AllocListStub
	QueryMeta
}

// JobBatchDeregisterRequest is the request of Job.BatchDeregister.
type JobBatchDeregisterRequest struct {
	Jobs       map[NamespacedID]*JobDeregisterOptions
	SubmitTime int64
	WriteRequest
}

// JobBatchDeregisterResponse is the reply of Job.BatchDeregister.
type JobBatchDeregisterResponse struct {
	QueryMeta
}

// JobChildrenSummary holds the fields of a job children summary.
type JobChildrenSummary struct {
	Pending int64
	Running int64
	Dead    int64
}

// JobDeregisterOptions holds the fields of a job deregister options.
type JobDeregisterOptions struct {
	Purge bool
}

// JobDeregisterRequest is the request of Job.Deregister.
type JobDeregisterRequest struct {
	JobID           string
	Purge           bool
	Global          bool
	EvalPriority    int
	NoShutdownDelay bool
	Eval            *Evaluation
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
	EvalOptions EvalOptions
	WriteRequest
}

// JobEvaluationsResponse is the reply of Job.Evaluations.
type JobEvaluationsResponse struct {
	Evaluations []*Evaluation
	QueryMeta
}

// JobListRequest is the request of Job.List.
type JobListRequest struct {
	QueryOptions
	Fields *JobStubFields
}

// JobListResponse is the reply of Job.List.
type JobListResponse struct {
	Jobs []*JobListStub
	QueryMeta
}

// JobListStub holds the fields of a job list stub.
type JobListStub struct {
	ID                string
	ParentID          string
	Name              string
	Namespace         string
	Datacenters       []string
	NodePool          string
	Multiregion       *Multiregion
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
	Meta              map[string]string
}

// JobPlanRequest is the request of Job.Plan.
type JobPlanRequest struct {
	Job            *Job
	Diff           bool
	PolicyOverride bool
	WriteRequest
}

// JobPlanResponse is the reply of Job.Plan.
type JobPlanResponse struct {
	Annotations        *PlanAnnotations
	FailedTGAllocs     map[string]*AllocMetric
	JobModifyIndex     uint64
	CreatedEvals       []*Evaluation
	Diff               *JobDiff
	NextPeriodicLaunch time.Time
	Warnings           string
	WriteMeta
}

// JobRegisterRequest is the request of Job.Register.
type JobRegisterRequest struct {
	Submission        *JobSubmission
	Job               *Job
	EnforceIndex      bool
	JobModifyIndex    uint64
	PreserveCounts    bool
	PreserveResources bool
	PolicyOverride    bool
	EvalPriority      int
	Eval              *Evaluation
	Deployment        *Deployment
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

// JobSpecificRequest is the request of Job.Allocations, Job.Deployments, Job.Evaluations, Job.GetJob and Job.LatestDeployment.
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

// JobStatusesAlloc holds the fields of a job statuses alloc.
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

// JobStatusesDeployment holds the fields of a job statuses deployment.
type JobStatusesDeployment struct {
	Canary  bool
	Healthy *bool
}

// JobStatusesJob holds the fields of a job statuses job.
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

// JobStatusesLatestDeployment holds the fields of a job statuses latest deployment.
type JobStatusesLatestDeployment struct {
	ID                string
	IsActive          bool
	JobVersion        uint64
	Status            string
	StatusDescription string
	AllAutoPromote    bool
	RequiresPromotion bool
}

// JobStatusesRequest is the request of Job.Statuses.
type JobStatusesRequest struct {
	Jobs            []NamespacedID
	IncludeChildren bool
	QueryOptions
}

// JobStatusesResponse is the reply of Job.Statuses.
type JobStatusesResponse struct {
	Jobs []JobStatusesJob
	QueryMeta
}

// JobStubFields holds the fields of a job stub fields.
type JobStubFields struct {
	Meta bool
}

// JobSubmission holds the fields of a job submission.
type JobSubmission struct {
	Source         string
	Format         string
	VariableFlags  map[string]string
	Variables      string
	Namespace      string
	JobID          string
	Version        uint64
	JobModifyIndex uint64
}

// JobSubmissionRequest is the request of Job.GetJobSubmission.
type JobSubmissionRequest struct {
	JobID   string
	Version uint64
	QueryOptions
}

// JobSubmissionResponse is the reply of Job.GetJobSubmission.
type JobSubmissionResponse struct {
	Submission *JobSubmission
	QueryMeta
}

// JobSummary holds the fields of a job summary.
type JobSummary struct {
	JobID       string
	Namespace   string
	Summary     map[string]TaskGroupSummary
	Children    *JobChildrenSummary
	CreateIndex uint64
	ModifyIndex uint64
}

// JobSummaryRequest is the request of Job.Summary.
type JobSummaryRequest struct {
	JobID string
	QueryOptions
}

// JobSummaryResponse is the reply of Job.Summary.
type JobSummaryResponse struct {
	JobSummary *JobSummary
	QueryMeta
}

// JobUIConfig holds the fields of a job ui config.
type JobUIConfig struct {
	Description string
	Links       []*JobUILink
}

// JobUILink holds the fields of a job ui link.
type JobUILink struct {
	Label string
	Url   string
}

// JobValidateRequest is the request of Job.Validate.
type JobValidateRequest struct {
	Job *Job
	WriteRequest
}

// JobValidateResponse is the reply of Job.Validate.
type JobValidateResponse struct {
	DriverConfigValidated bool
	ValidationErrors      []string
	Error                 string
	Warnings              string
}

// JobVersionTag holds the fields of a job version tag.
type JobVersionTag struct {
	Name        string
	Description string
	TaggedTime  int64
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
	Versions []*Job
	Diffs    []*JobDiff
	QueryMeta
}

// Multiregion holds the fields of a multiregion.
type Multiregion struct {
	Strategy *MultiregionStrategy
	Regions  []*MultiregionRegion
}

// MultiregionRegion holds the fields of a multiregion region.
type MultiregionRegion struct {
	Name        string
	Count       int
	Datacenters []string
	NodePool    string
	Meta        map[string]string
}

// MultiregionStrategy holds the fields of a multiregion strategy.
type MultiregionStrategy struct {
	MaxParallel int
	OnFailure   string
}

// ParameterizedJobConfig holds the fields of a parameterized job config.
type ParameterizedJobConfig struct {
	Payload      string
	MetaRequired []string
	MetaOptional []string
}

// PeriodicConfig holds the fields of a periodic config.
type PeriodicConfig struct {
	Enabled         bool
	Spec            string
	Specs           []string
	SpecType        string
	ProhibitOverlap bool
	TimeZone        string
}

// ScalingEvent holds the fields of a scaling event.
type ScalingEvent struct {
	Time          int64
	Count         *int64
	PreviousCount int64
	Message       string
	Error         bool
	Meta          map[string]any
	EvalID        *string
	CreateIndex   uint64
}

// SingleJobResponse is the reply of Job.GetJob.
type SingleJobResponse struct {
	Job *Job
	QueryMeta
}
