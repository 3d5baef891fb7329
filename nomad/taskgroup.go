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

// DisconnectStrategy says what happens to allocations whose client lost contact with
// the servers.
type DisconnectStrategy struct {
	LostAfter         time.Duration
	StopOnClientAfter *time.Duration
	Replace           *bool
	Reconcile         string
}

// EphemeralDisk is the disk space, in MiB, shared by the tasks of an allocation, and
// whether it follows the allocation to its replacement.
type EphemeralDisk struct {
	Sticky  bool
	SizeMB  int
	Migrate bool
}

// MigrateStrategy says how many allocations leave a draining node at once and when a
// replacement counts as healthy.
type MigrateStrategy struct {
	MaxParallel     int
	HealthCheck     string
	MinHealthyTime  time.Duration
	HealthyDeadline time.Duration
}

// ReschedulePolicy says whether, when and how often a failed allocation is replaced
// on another node.
type ReschedulePolicy struct {
	Attempts      int
	Interval      time.Duration
	Delay         time.Duration
	DelayFunction string
	MaxDelay      time.Duration
	Unlimited     bool
}

// RestartPolicy says how often a failed task is started again on its node before its
// allocation fails.
type RestartPolicy struct {
	Attempts        int
	Interval        time.Duration
	Delay           time.Duration
	Mode            string
	RenderTemplates bool
}

// TaskGroup is the unit of placement: its tasks always run together on one node.
// Count says how many copies run.
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

// UpdateStrategy says how a changed job replaces its running allocations.
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
