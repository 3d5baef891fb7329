package nomad

import "time"

// Values of update, restart, reschedule, migrate and disconnect blocks.
const (
	ReconcileOptionKeepOriginal                                      = "keep_original"
	ReconcileOptionKeepReplacement                                   = "keep_replacement"
	ReconcileOptionBestScore                                         = "best_score"
	ReconcileOptionLongestRunning                                    = "longest_running"
	UpdateStrategyHealthCheck_Checks                                 = "checks"
	UpdateStrategyHealthCheck_TaskStates                             = "task_states"
	UpdateStrategyHealthCheck_Manual                                 = "manual"
	RestartPolicyModeDelay                                           = "delay"
	RestartPolicyModeFail                                            = "fail"
	RestartPolicyMinInterval             time.Duration               = 5000000000
	ReasonWithinPolicy                                               = "Restart within policy"
	ReschedulePolicyMinInterval          time.Duration               = 15000000000
	ReschedulePolicyMinDelay             time.Duration               = 5000000000
	MigrateStrategyHealthChecks                                      = "checks"
	MigrateStrategyHealthStates                                      = "task_states"
	LastRescheduleSuccess                RescheduleTrackerAnnotation = "ok"
	LastRescheduleFailedToPlace          RescheduleTrackerAnnotation = "no placement"
)

// DisconnectStrategy holds the fields of a disconnect strategy.
type DisconnectStrategy struct {
	LostAfter         time.Duration
	StopOnClientAfter *time.Duration
	Replace           *bool
	Reconcile         string
}

// EphemeralDisk holds the fields of an ephemeral disk.
type EphemeralDisk struct {
	Sticky  bool
	SizeMB  int
	Migrate bool
}

// MigrateStrategy holds the fields of a migrate strategy.
type MigrateStrategy struct {
	MaxParallel     int
	HealthCheck     string
	MinHealthyTime  time.Duration
	HealthyDeadline time.Duration
}

// ReschedulePolicy holds the fields of a reschedule policy.
type ReschedulePolicy struct {
	Attempts      int
	Interval      time.Duration
	Delay         time.Duration
	DelayFunction string
	MaxDelay      time.Duration
	Unlimited     bool
}

// RestartPolicy holds the fields of a restart policy.
type RestartPolicy struct {
	Attempts        int
	Interval        time.Duration
	Delay           time.Duration
	Mode            string
	RenderTemplates bool
}

// TaskGroup holds the fields of a task group.
type TaskGroup struct {
	Name                      string
	Count                     int
	Update                    *UpdateStrategy
	Migrate                   *MigrateStrategy
	Constraints               []*Constraint
	Scaling                   *ScalingPolicy
	RestartPolicy             *RestartPolicy
	Disconnect                *DisconnectStrategy
	Tasks                     []*Task
	EphemeralDisk             *EphemeralDisk
	Meta                      map[string]string
	ReschedulePolicy          *ReschedulePolicy
	Affinities                []*Affinity
	Spreads                   []*Spread
	Networks                  Networks
	Consul                    *Consul
	Services                  []*Service
	Volumes                   map[string]*VolumeRequest
	ShutdownDelay             *time.Duration
	MaxRunDuration            *time.Duration
	StopAfterClientDisconnect *time.Duration
	MaxClientDisconnect       *time.Duration
	PreventRescheduleOnLost   bool
}

// UpdateStrategy holds the fields of an update strategy.
type UpdateStrategy struct {
	Stagger          time.Duration
	MaxParallel      int
	HealthCheck      string
	MinHealthyTime   time.Duration
	HealthyDeadline  time.Duration
	ProgressDeadline time.Duration
	AutoRevert       bool
	AutoPromote      bool
	Canary           int
}
