package nomad

import (
	"strings"
	"time"
)

// The types of jobs.
const (
	JobTypeCore     = "_core"
	JobTypeService  = "service"
	JobTypeBatch    = "batch"
	JobTypeSystem   = "system"
	JobTypeSysBatch = "sysbatch"
)

// The statuses of a job.
const (
	JobStatusPending = "pending"
	JobStatusRunning = "running"
	JobStatusDead    = "dead"
)

// Limits and defaults of jobs.
const (
	JobMinPriority            = 1
	JobDefaultPriority        = 50
	JobDefaultMaxPriority     = 100
	JobMaxPriority            = 32766
	JobDefaultMaxCount        = 50000
	JobDefaultTrackedVersions = 6
)

// The payload modes of a parameterized job, and the separator in the IDs of its children between the parent's ID
// and the rest.
const (
	DispatchPayloadForbidden = "forbidden"
	DispatchPayloadOptional  = "optional"
	DispatchPayloadRequired  = "required"
	DispatchLaunchSuffix     = "/dispatch-"
)

// PeriodicLaunchSuffix separates the parent's ID from the rest in the ID of a periodic job's child.
const PeriodicLaunchSuffix = "/periodic-"

// DispatchedID splits the ID of a child of a parameterized job at DispatchLaunchSuffix.
func DispatchedID(id string) (parent, child string, ok bool) {
	return strings.Cut(id, DispatchLaunchSuffix)
}

// PeriodicID splits the ID of a child of a periodic job at PeriodicLaunchSuffix.
func PeriodicID(id string) (parent, child string, ok bool) {
	return strings.Cut(id, PeriodicLaunchSuffix)
}

// RegisterEnforceIndexErrPrefix is the prefix of the error of a registration with the wrong job modify index.
// Clients match this text.
const RegisterEnforceIndexErrPrefix = "Enforcing job modify index"

// DispatchPayloadConfig names the file that the client writes the payload of a dispatched job to. The path is
// relative to the task's local directory.
type DispatchPayloadConfig struct {
	File string
}

// Job is a job in the form that servers store: canonical (Canonicalize), valid (Validate) and with server fields.
// The user writes the specification. The FSM writes Status, Version, Stable and the indexes. JobModifyIndex
// changes only with the specification, ModifyIndex with every change. SubmitTime is in Unix nanoseconds.
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

// IdentityID returns the job ID in the identities of the job's workloads, which determines their rights. It is the
// parent's ID for a dispatched job, and its own ID otherwise. Only servers set Dispatched. ParentID alone is not
// trusted, because earlier servers accepted it from registrations.
func (j *Job) IdentityID() string {
	if j.Dispatched && j.ParentID != "" && strings.HasPrefix(j.ID, j.ParentID+DispatchLaunchSuffix) {
		return j.ParentID
	}
	return j.ID
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

// JobChildrenSummary counts the children of a periodic or parameterized job by status.
type JobChildrenSummary struct {
	Pending int64
	Running int64
	Dead    int64
}

// JobDeregisterOptions are the options for one job of Job.BatchDeregister.
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

// JobListStub is a job in a list.
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

// JobStubFields selects the optional fields of a job list.
type JobStubFields struct {
	Meta bool
}

// JobSubmission is the source of a registered version of a job. Format is hcl2 or json. It is stored separately
// from the job, up to a maximum size.
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

// JobSummary counts the allocations of a job by group and state. The FSM updates it with each change of an
// allocation.
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

// JobUIConfig is the description and the links of a job in a web UI. It does not affect scheduling.
type JobUIConfig struct {
	Description string
	Links       []*JobUILink
}

// JobUILink is a link that a web UI shows for a job.
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

// JobVersionTag is a name that a user gave to one version of a job. Garbage collection keeps tagged versions.
// TaggedTime is in Unix nanoseconds.
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

// Multiregion requests a rollout over several regions.
type Multiregion struct {
	Strategy *MultiregionStrategy
	Regions  []*MultiregionRegion
}

// MultiregionRegion configures the part of a multiregion job that runs in one region.
type MultiregionRegion struct {
	Name        string
	Count       int
	Datacenters []string
	NodePool    string
	Meta        map[string]string
}

// MultiregionStrategy configures how many regions deploy at once and how a failure in one region affects the others.
type MultiregionStrategy struct {
	MaxParallel int
	OnFailure   string
}

// ParameterizedJobConfig makes a job a template. It runs only when it is dispatched.
type ParameterizedJobConfig struct {
	Payload      string
	MetaRequired []string
	MetaOptional []string
}

// PeriodicConfig makes a job a template. It runs at the times of a cron expression.
type PeriodicConfig struct {
	Enabled         bool
	Spec            string
	Specs           []string
	SpecType        string
	ProhibitOverlap bool
	TimeZone        string
}

// SingleJobResponse is the reply of Job.GetJob.
type SingleJobResponse struct {
	Job *Job
	QueryMeta
}
