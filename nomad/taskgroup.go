package nomad

import "time"

// How the health of a deployed or migrated allocation is judged.
const (
	UpdateStrategyHealthCheck_Checks     = "checks"
	UpdateStrategyHealthCheck_TaskStates = "task_states"
	UpdateStrategyHealthCheck_Manual     = "manual"
	MigrateStrategyHealthChecks          = "checks"
	MigrateStrategyHealthStates          = "task_states"
)

// What becomes of a task that used up its restarts, the bounds of restarts and
// reschedules, and how a reschedule went.
const (
	RestartPolicyModeDelay                                  = "delay"
	RestartPolicyModeFail                                   = "fail"
	RestartPolicyMinInterval                                = 5 * time.Second
	ReschedulePolicyMinInterval                             = 15 * time.Second
	ReschedulePolicyMinDelay                                = 5 * time.Second
	ReasonWithinPolicy                                      = "Restart within policy"
	LastRescheduleSuccess       RescheduleTrackerAnnotation = "ok"
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
