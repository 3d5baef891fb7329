package nomad

import (
	"slices"
	"time"
)

// Types of task events.
const (
	TaskSetup                    = "Task Setup"
	TaskSetupFailure             = "Setup Failure"
	TaskDriverFailure            = "Driver Failure"
	TaskReceived                 = "Received"
	TaskFailedValidation         = "Failed Validation"
	TaskStarted                  = "Started"
	TaskTerminated               = "Terminated"
	TaskKilling                  = "Killing"
	TaskKilled                   = "Killed"
	TaskRestarting               = "Restarting"
	TaskNotRestarting            = "Not Restarting"
	TaskRestartSignal            = "Restart Signaled"
	TaskAllocUnhealthy           = "Alloc Unhealthy"
	TaskSignaling                = "Signaling"
	TaskSiblingFailed            = "Sibling Task Failed"
	TaskDriverMessage            = "Driver"
	TaskLeaderDead               = "Leader Task Dead"
	TaskMainDead                 = "Main Tasks Dead"
	TaskHookFailed               = "Task hook failed"
	TaskHookMessage              = "Task hook message"
	TaskConsul                   = "Consul" // open-nomad only
	TaskTemplate                 = "Template"
	TaskRestoreFailed            = "Failed Restoring Task"
	TaskWaitingShuttingDownDelay = "Waiting for shutdown delay"
	TaskSkippingShutdownDelay    = "Skipping shutdown delay"
	TaskRunning                  = "Running"
	TaskPausing                  = "Pausing"
	TaskClientReconnected        = "Reconnected"
	TaskDownloadingArtifacts     = "Downloading Artifacts"
	TaskArtifactDownloadFailed   = "Failed Artifact Download"
	TaskPluginHealthy            = "Plugin became healthy"
	TaskPluginUnhealthy          = "Plugin became unhealthy"

	// The following types are open-nomad only.
	TaskPortForward     = "Port Forward"     // a caller was connected to a port of the allocation
	TaskSandboxDenial   = "Sandbox Denial"   // the sandbox denied an operation
	TaskSandboxMismatch = "Sandbox Mismatch" // the live sandbox differs from the declared one
	TaskLogs            = "Task Logs"        // a log cannot be written, or can be written again
)

// TaskBuildingTaskDir is the message of the Task Setup event.
const TaskBuildingTaskDir = "Building Task Directory"

// DefaultKillTimeout is the default time between the kill signal and the forced kill of a task.
const DefaultKillTimeout = 5 * time.Second

// The times when lifecycle tasks run, relative to the main tasks.
const (
	TaskLifecycleHookPrestart  = "prestart"
	TaskLifecycleHookPoststart = "poststart"
	TaskLifecycleHookPoststop  = "poststop"
)

// The states of a task.
const (
	TaskStatePending = "pending"
	TaskStateRunning = "running"
	TaskStateDead    = "dead"
)

// Action is a named command that a user may run inside a running task.
type Action struct {
	Name    string
	Command string
	Args    []string
}

// LogConfig specifies the number and size, in MiB, of the log files that the client keeps for each stream of a task.
type LogConfig struct {
	MaxFiles      int
	MaxFileSizeMB int
	Disabled      bool
	// Sinks are the log sinks of the node that get a copy. It exists only in open-nomad.
	Sinks []string `json:",omitempty" codec:",omitempty"`
}

// Task is one program of a group.
type Task struct {
	Name            string
	Driver          string
	User            string
	Config          map[string]any
	Env             map[string]string
	Services        []*Service
	Vault           *Vault
	Secrets         []*Secret
	Consul          *Consul
	Templates       []*Template
	Constraints     []*Constraint
	Affinities      []*Affinity
	Resources       *Resources
	RestartPolicy   *RestartPolicy
	DispatchPayload *DispatchPayloadConfig
	Lifecycle       *TaskLifecycleConfig
	Meta            map[string]string
	KillTimeout     time.Duration
	LogConfig       *LogConfig
	Artifacts       []*TaskArtifact
	Leader          bool
	ShutdownDelay   time.Duration
	VolumeMounts    []*VolumeMount
	ScalingPolicies []*ScalingPolicy
	KillSignal      string
	Kind            TaskKind
	CSIPluginConfig *TaskCSIPluginConfig
	Identity        *WorkloadIdentity
	Identities      []*WorkloadIdentity
	Actions         []*Action
	Schedule        *TaskSchedule
	// Privileged requests that the driver gives the task rights that let it out of its isolation
	// (open-nomad only).
	Privileged bool `json:",omitempty" codec:",omitempty"`
	// Isolation is the lowest isolation level with which the task may run (open-nomad only). If
	// empty, any level suffices.
	Isolation string `json:",omitempty" codec:",omitempty"`
	// Spiffe requests the SPIFFE Workload API for the task (open-nomad only).
	Spiffe *TaskSpiffe `json:",omitempty" codec:",omitempty"`
}

// TaskArtifact is a file or directory that is downloaded before the task starts.
type TaskArtifact struct {
	GetterSource   string
	GetterOptions  map[string]string
	GetterHeaders  map[string]string
	GetterMode     string
	GetterInsecure bool
	RelativeDest   string
	Chown          bool
	Verify         *ArtifactVerify `json:",omitempty" codec:",omitempty"` // not in Nomad
}

// ArtifactVerify is the signature that an artifact must have. Nomad does not have it.
type ArtifactVerify struct {
	MinisignKey string // public key of minisign
	Signature   string // source of the signature; "" is the artifact's with the suffix .minisig
}

// TaskEvent is an event in the life of a task. The client writes it. Time is in Unix nanoseconds. DisplayMessage is for
// humans, Details for programs.
type TaskEvent struct {
	Type             string
	Time             int64
	Message          string
	DisplayMessage   string
	Details          map[string]string
	FailsTask        bool
	RestartReason    string
	SetupError       string
	DriverError      string
	ExitCode         int
	Signal           int
	KillTimeout      time.Duration
	KillError        string
	KillReason       string
	StartDelay       int64
	DownloadError    string
	ValidationError  string
	DiskLimit        int64
	FailedSibling    string
	VaultError       string
	TaskSignalReason string
	TaskSignal       string
	DriverMessage    string
	GenericSource    string
}

// TaskGroupSummary counts the allocations of a group by state. Queued allocations are not placed yet.
type TaskGroupSummary struct {
	Queued   int
	Complete int
	Failed   int
	Running  int
	Starting int
	Lost     int
	Unknown  int
}

// TaskKind is the Consul Connect role of a task, such as connect-proxy:<service>. It is empty for other tasks.
type TaskKind string

// TaskLifecycleConfig makes a task run before, alongside or after the main tasks of its group.
type TaskLifecycleConfig struct {
	Hook    string
	Sidecar bool
}

// TaskSchedule restricts a task to certain times.
type TaskSchedule struct {
	Cron *TaskScheduleCron
}

// TaskScheduleCron specifies the times at which a scheduled task starts and ends.
type TaskScheduleCron struct {
	Start    string
	End      string
	Timezone string
}

// TaskScheduleState indicates whether the schedule or an operator pauses a task.
type TaskScheduleState string

// TaskState is the state of a task of an allocation. The client writes it and sends it with the newest ten events.
type TaskState struct {
	State       string
	Failed      bool
	Restarts    uint64
	LastRestart time.Time
	StartedAt   time.Time
	FinishedAt  time.Time
	Events      []*TaskEvent
	Paused      TaskScheduleState
	// ArtifactDigests holds the digest of each downloaded file, such as sha256:9f86..., by destination as in the job. It
	// exists only in open-nomad.
	ArtifactDigests map[string]string `json:",omitempty"`
	// Isolation is the isolation level with which the task was started last. It exists only in open-nomad.
	Isolation string `json:",omitempty" codec:",omitempty"`
}

// Verifies reports whether an artifact of the task must have a signature.
func (t *Task) Verifies() bool {
	return slices.ContainsFunc(t.Artifacts, func(a *TaskArtifact) bool { return a.Verify != nil })
}
