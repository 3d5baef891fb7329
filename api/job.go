package api

// Types of jobs, their default priority, and what the IDs of child jobs contain.
const (
	JobTypeService                = "service"
	JobTypeBatch                  = "batch"
	JobTypeSystem                 = "system"
	JobTypeSysbatch               = "sysbatch"
	JobDefaultPriority            = 50
	PeriodicSpecCron              = "cron"
	GlobalRegion                  = "global"
	RegisterEnforceIndexErrPrefix = "Enforcing job modify index"
	JobPeriodicLaunchSuffix       = "/periodic-"
	JobDispatchLaunchSuffix       = "/dispatch-"
)

// Job is a job as a person writes it and as the HTTP API takes and shows it. A nil
// pointer means that the field was not given: Canonicalize fills it.
type Job struct {
	Region                   *string                 `hcl:"region"`
	Namespace                *string                 `hcl:"namespace"`
	ID                       *string                 `hcl:"id"`
	Name                     *string                 `hcl:"name"`
	Type                     *string                 `hcl:"type"`
	Priority                 *int                    `hcl:"priority"`
	AllAtOnce                *bool                   `hcl:"all_at_once"`
	Datacenters              []string                `hcl:"datacenters"`
	NodePool                 *string                 `hcl:"node_pool"`
	Constraints              []*Constraint           `hcl:"constraint,block"`
	Affinities               []*Affinity             `hcl:"affinity,block"`
	TaskGroups               []*TaskGroup            `hcl:"group,block"`
	Update                   *UpdateStrategy         `hcl:"update,block"`
	Multiregion              *Multiregion            `hcl:"multiregion,block"`
	Spreads                  []*Spread               `hcl:"spread,block"`
	Periodic                 *PeriodicConfig         `hcl:"periodic,block"`
	ParameterizedJob         *ParameterizedJobConfig `hcl:"parameterized,block"`
	Reschedule               *ReschedulePolicy       `hcl:"reschedule,block"`
	Migrate                  *MigrateStrategy        `hcl:"migrate,block"`
	Meta                     map[string]string       `hcl:"meta,block|attr"`
	UI                       *JobUIConfig            `hcl:"ui,block"`
	Stop                     *bool
	ParentID                 *string
	Dispatched               bool
	DispatchIdempotencyToken *string
	Payload                  []byte
	ConsulNamespace          *string
	VaultNamespace           *string
	NomadTokenID             *string
	Status                   *string
	StatusDescription        *string
	Stable                   *bool
	Version                  *uint64
	SubmitTime               *int64
	CreateIndex              *uint64
	ModifyIndex              *uint64
	JobModifyIndex           *uint64
	VersionTag               *JobVersionTag
}

// JobUIConfig is what a web interface shows beside a job. It does not influence scheduling.
type JobUIConfig struct {
	Description string       `hcl:"description"`
	Links       []*JobUILink `hcl:"link,block"`
}

// JobUILink is one link that a web interface shows beside a job.
type JobUILink struct {
	Label string `hcl:"label"`
	URL   string `hcl:"url"`
}

// JobVersionTag is a name that a person gave to one version of a job, which keeps
// that version from garbage collection. TaggedTime is in Unix nanoseconds.
type JobVersionTag struct {
	Name        string
	Description string
	TaggedTime  int64
}

// Multiregion asks for a rollout over several regions.
type Multiregion struct {
	Strategy *MultiregionStrategy `hcl:"strategy,block"`
	Regions  []*MultiregionRegion `hcl:"region,block"`
}

// MultiregionRegion is the part of a multiregion job that runs in one region.
type MultiregionRegion struct {
	Name        string            `hcl:",label"`
	Count       *int              `hcl:"count"`
	Datacenters []string          `hcl:"datacenters"`
	NodePool    string            `hcl:"node_pool"`
	Meta        map[string]string `hcl:"meta,block"`
}

// MultiregionStrategy says how many regions roll out at once and what a failure in
// one does to the others.
type MultiregionStrategy struct {
	MaxParallel *int    `hcl:"max_parallel"`
	OnFailure   *string `hcl:"on_failure"`
}

// ParameterizedJobConfig makes a job a template that runs only when it is dispatched.
type ParameterizedJobConfig struct {
	Payload      string   `hcl:"payload"`
	MetaRequired []string `hcl:"meta_required"`
	MetaOptional []string `hcl:"meta_optional"`
}

// PeriodicConfig makes a job a template that runs at the times of a cron expression.
type PeriodicConfig struct {
	Enabled         *bool    `hcl:"enabled"`
	Spec            *string  `hcl:"cron"`
	Specs           []string `hcl:"crons"`
	SpecType        *string
	ProhibitOverlap *bool   `hcl:"prohibit_overlap"`
	TimeZone        *string `hcl:"time_zone"`
}

// DispatchPayloadConfig names the file, below the task's local directory, that
// receives the payload of a dispatched job.
type DispatchPayloadConfig struct {
	File string `hcl:"file"`
}
