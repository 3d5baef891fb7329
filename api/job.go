package api

// Types of jobs, the default priority, region and namespace, and the infixes of the IDs of child
// jobs.
const (
	JobTypeService          = "service"
	JobTypeBatch            = "batch"
	JobTypeSystem           = "system"
	JobTypeSysbatch         = "sysbatch"
	JobDefaultPriority      = 50
	PeriodicSpecCron        = "cron"
	GlobalRegion            = "global"
	DefaultNamespace        = "default"
	JobPeriodicLaunchSuffix = "/periodic-"
	JobDispatchLaunchSuffix = "/dispatch-"
)

// Job is a job of a job file or of the HTTP API. A nil pointer is an unset field.
// Canonicalize sets the defaults.
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

// JobUIConfig is shown with a job in a web interface. It does not affect scheduling.
type JobUIConfig struct {
	Description string       `hcl:"description"`
	Links       []*JobUILink `hcl:"link,block"`
}

// JobUILink is a link in a JobUIConfig.
type JobUILink struct {
	Label string `hcl:"label"`
	URL   string `hcl:"url"`
}

// JobVersionTag is a user-defined name of a job version. A tagged version is not garbage
// collected. TaggedTime is in Unix nanoseconds.
type JobVersionTag struct {
	Name        string
	Description string
	TaggedTime  int64
}

// Multiregion configures a job that runs in several regions.
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

// MultiregionStrategy configures the number of regions that deploy at once, and the effect
// of a failure in one region on the others.
type MultiregionStrategy struct {
	MaxParallel *int    `hcl:"max_parallel"`
	OnFailure   *string `hcl:"on_failure"`
}

// ParameterizedJobConfig makes a job parameterized: it runs only as dispatched jobs.
type ParameterizedJobConfig struct {
	Payload      string   `hcl:"payload"`
	MetaRequired []string `hcl:"meta_required"`
	MetaOptional []string `hcl:"meta_optional"`
}

// PeriodicConfig makes a job periodic: it runs at the times of cron expressions.
type PeriodicConfig struct {
	Enabled         *bool    `hcl:"enabled"`
	Spec            *string  `hcl:"cron"`
	Specs           []string `hcl:"crons"`
	SpecType        *string
	ProhibitOverlap *bool   `hcl:"prohibit_overlap"`
	TimeZone        *string `hcl:"time_zone"`
}

// DispatchPayloadConfig is the file for the payload of a dispatched job, relative to the
// task's local directory.
type DispatchPayloadConfig struct {
	File string `hcl:"file"`
}
