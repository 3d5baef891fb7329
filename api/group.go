package api

import "time"

// ReconcileOption selects the allocation to keep when a disconnected client reconnects.
type ReconcileOption = string

// Values of restart and disconnect blocks.
const (
	RestartPolicyModeDelay         = "delay"
	RestartPolicyModeFail          = "fail"
	ReconcileOptionKeepOriginal    = "keep_original"
	ReconcileOptionKeepReplacement = "keep_replacement"
	ReconcileOptionBestScore       = "best_score"
	ReconcileOptionLongestRunning  = "longest_running"
)

// TaskGroup is the unit of placement: its tasks run together on one node. Count is the
// number of instances.
type TaskGroup struct {
	Name                      *string                   `hcl:",label"`
	Count                     *int                      `hcl:"count"`
	Constraints               []*Constraint             `hcl:"constraint,block"`
	Affinities                []*Affinity               `hcl:"affinity,block"`
	Tasks                     []*Task                   `hcl:"task,block"`
	Spreads                   []*Spread                 `hcl:"spread,block"`
	Volumes                   map[string]*VolumeRequest `hcl:"volume,block"`
	RestartPolicy             *RestartPolicy            `hcl:"restart,block"`
	Disconnect                *DisconnectStrategy       `hcl:"disconnect,block"`
	ReschedulePolicy          *ReschedulePolicy         `hcl:"reschedule,block"`
	EphemeralDisk             *EphemeralDisk            `hcl:"ephemeral_disk,block"`
	Update                    *UpdateStrategy           `hcl:"update,block"`
	Migrate                   *MigrateStrategy          `hcl:"migrate,block"`
	Networks                  []*NetworkResource        `hcl:"network,block"`
	Meta                      map[string]string         `hcl:"meta,block|attr"`
	Services                  []*Service                `hcl:"service,block"`
	ShutdownDelay             *time.Duration            `hcl:"shutdown_delay"`
	MaxRunDuration            *time.Duration            `hcl:"max_run_duration"`
	StopAfterClientDisconnect *time.Duration            `hcl:"stop_after_client_disconnect"`
	MaxClientDisconnect       *time.Duration            `hcl:"max_client_disconnect"`
	Scaling                   *ScalingPolicy            `hcl:"scaling,block"`
	Consul                    *Consul                   `hcl:"consul,block"`
	PreventRescheduleOnLost   *bool                     `hcl:"prevent_reschedule_on_lost"`
}

// EphemeralDisk is the disk space shared by the tasks of an allocation, in MiB. It can be
// sticky and migrate to a replacement.
type EphemeralDisk struct {
	Sticky  *bool `hcl:"sticky"`
	Migrate *bool `hcl:"migrate"`
	SizeMB  *int  `hcl:"size"`
}

// DisconnectStrategy configures allocations on a client that is disconnected from the
// servers.
type DisconnectStrategy struct {
	LostAfter         *time.Duration   `hcl:"lost_after"`
	StopOnClientAfter *time.Duration   `hcl:"stop_on_client_after"`
	Replace           *bool            `hcl:"replace"`
	Reconcile         *ReconcileOption `hcl:"reconcile"`
}

// MigrateStrategy configures the migration of allocations from a draining node: the
// parallelism and the health of replacements.
type MigrateStrategy struct {
	MaxParallel     *int           `hcl:"max_parallel"`
	HealthCheck     *string        `hcl:"health_check"`
	MinHealthyTime  *time.Duration `hcl:"min_healthy_time"`
	HealthyDeadline *time.Duration `hcl:"healthy_deadline"`
}

// ReschedulePolicy configures whether, when and how often a failed allocation is
// rescheduled.
type ReschedulePolicy struct {
	Attempts      *int           `hcl:"attempts"`
	Interval      *time.Duration `hcl:"interval"`
	Delay         *time.Duration `hcl:"delay"`
	DelayFunction *string        `hcl:"delay_function"`
	MaxDelay      *time.Duration `hcl:"max_delay"`
	Unlimited     *bool          `hcl:"unlimited"`
}

// RestartPolicy configures how often a failed task restarts on its node before its
// allocation fails.
type RestartPolicy struct {
	Interval        *time.Duration `hcl:"interval"`
	Attempts        *int           `hcl:"attempts"`
	Delay           *time.Duration `hcl:"delay"`
	Mode            *string        `hcl:"mode"`
	RenderTemplates *bool          `hcl:"render_templates"`
}

// UpdateStrategy configures how an updated job replaces its running allocations.
type UpdateStrategy struct {
	Stagger          *time.Duration `hcl:"stagger"`
	MaxParallel      *int           `hcl:"max_parallel"`
	HealthCheck      *string        `hcl:"health_check"`
	MinHealthyTime   *time.Duration `hcl:"min_healthy_time"`
	HealthyDeadline  *time.Duration `hcl:"healthy_deadline"`
	ProgressDeadline *time.Duration `hcl:"progress_deadline"`
	Canary           *int           `hcl:"canary"`
	AutoRevert       *bool          `hcl:"auto_revert"`
	AutoPromote      *bool          `hcl:"auto_promote"`
}

// VolumeRequest requests a volume for a group. Its name is used by volume mounts of tasks.
type VolumeRequest struct {
	Name           string
	Type           string           `hcl:"type"`
	Source         string           `hcl:"source"`
	ReadOnly       bool             `hcl:"read_only"`
	Sticky         bool             `hcl:"sticky"`
	AccessMode     string           `hcl:"access_mode"`
	AttachmentMode string           `hcl:"attachment_mode"`
	MountOptions   *CSIMountOptions `hcl:"mount_options,block"`
	PerAlloc       bool             `hcl:"per_alloc"`
}

// ScalingPolicy limits the count or the resources that an autoscaler can set.
type ScalingPolicy struct {
	Min         *int64         `hcl:"min"`
	Max         *int64         `hcl:"max"`
	Policy      map[string]any `hcl:"policy,block"`
	Enabled     *bool          `hcl:"enabled"`
	Type        string         `hcl:"type"`
	ID          string
	Namespace   string
	Target      map[string]string
	CreateIndex uint64
	ModifyIndex uint64
}
