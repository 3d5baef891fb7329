package nomad

import "strings"

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

// DispatchedID splits the ID of a child of a parameterized job at DispatchLaunchSuffix.
func DispatchedID(id string) (parent, child string, ok bool) {
	return strings.Cut(id, DispatchLaunchSuffix)
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
	Registrant               *Registrant `codec:",omitempty" json:"-" http:"-" bexpr:"-"` // open-nomad only
}

// Registrant holds the rights of who registered a version of a job, as far as it or an earlier version needs them
// (open-nomad only). The servers write jobs with these rights: rollbacks and launches. Only servers set it.
type Registrant struct {
	Management bool     // every right
	Rights     []string // sorted
}

// IdentityID returns the job ID in the identities of the job's workloads, which determines their rights. It is the
// parent's ID for a dispatched job and for a launch of a periodic job, and its own ID otherwise. ParentID alone is not
// trusted, because earlier servers accepted it from registrations: the ID must also have the form that servers give.
func (j *Job) IdentityID() string {
	if j.ParentID == "" {
		return j.ID
	}
	_, launched := LaunchTime(j.ParentID, j.ID)
	if launched && j.Periodic == nil || j.Dispatched && strings.HasPrefix(j.ID, j.ParentID+DispatchLaunchSuffix) {
		return j.ParentID
	}
	return j.ID
}

// JobChildrenSummary counts the children of a periodic or parameterized job by status.
type JobChildrenSummary struct {
	Pending int64
	Running int64
	Dead    int64
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

	source jobSource // of a stub that was made in this process
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

// JobVersionTag is a name that a user gave to one version of a job. Garbage collection keeps tagged versions.
// TaggedTime is in Unix nanoseconds.
type JobVersionTag struct {
	Name        string
	Description string
	TaggedTime  int64
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
