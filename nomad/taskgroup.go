package nomad

import "time"

// The health checks for allocations of deployments and migrations.
const (
	UpdateStrategyHealthCheck_Checks     = "checks"
	UpdateStrategyHealthCheck_TaskStates = "task_states"
	UpdateStrategyHealthCheck_Manual     = "manual"
	MigrateStrategyHealthChecks          = "checks"
	MigrateStrategyHealthStates          = "task_states"
)

// The modes of a restart policy, the limits of restarts and reschedules, and their outcomes.
const (
	RestartPolicyModeDelay                                  = "delay"
	RestartPolicyModeFail                                   = "fail"
	RestartPolicyMinInterval                                = 5 * time.Second
	ReschedulePolicyMinInterval                             = 15 * time.Second
	ReschedulePolicyMinDelay                                = 5 * time.Second
	ReasonWithinPolicy                                      = "Restart within policy"
	LastRescheduleSuccess       RescheduleTrackerAnnotation = "ok"
	LastRescheduleFailedToPlace RescheduleTrackerAnnotation = "no placement"
)

// DisconnectStrategy specifies how to treat allocations whose client lost contact with the servers.
type DisconnectStrategy struct {
	LostAfter         time.Duration
	StopOnClientAfter *time.Duration
	Replace           *bool
	Reconcile         string
}

// EphemeralDisk is the disk space, in MiB, that the tasks of an allocation share. Sticky and Migrate specify whether its
// data moves to a replacement allocation.
type EphemeralDisk struct {
	Sticky  bool
	SizeMB  int
	Migrate bool
}

// MigrateStrategy specifies how many allocations leave a draining node at once, and when a replacement is healthy.
type MigrateStrategy struct {
	MaxParallel     int
	HealthCheck     string
	MinHealthyTime  time.Duration
	HealthyDeadline time.Duration
}

// ReschedulePolicy specifies whether, when and how often a failed allocation is replaced.
type ReschedulePolicy struct {
	Attempts      int
	Interval      time.Duration
	Delay         time.Duration
	DelayFunction string
	MaxDelay      time.Duration
	Unlimited     bool
}

// RestartPolicy specifies how often a failed task is restarted on its node before its allocation fails.
type RestartPolicy struct {
	Attempts        int
	Interval        time.Duration
	Delay           time.Duration
	Mode            string
	RenderTemplates bool
}

// TaskGroup is the unit of placement: its tasks always run together on one node. Count is the number of instances.
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

// UpdateStrategy specifies how a changed job replaces its running allocations.
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

// NetworkMode returns the mode of the group's network.
func (tg *TaskGroup) NetworkMode() string {
	for _, n := range tg.Networks {
		if n.Mode != "" {
			return n.Mode
		}
	}
	return NetworkModeHost
}
