package nomad

import "time"

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
	TaskSignaling                = "Signaling"
	TaskSiblingFailed            = "Sibling Task Failed"
	TaskDriverMessage            = "Driver"
	TaskLeaderDead               = "Leader Task Dead"
	TaskMainDead                 = "Main Tasks Dead"
	TaskHookFailed               = "Task hook failed"
	TaskHookMessage              = "Task hook message"
	TaskRestoreFailed            = "Failed Restoring Task"
	TaskWaitingShuttingDownDelay = "Waiting for shutdown delay"
	TaskSkippingShutdownDelay    = "Skipping shutdown delay"
	TaskRunning                  = "Running"

	// Ours.
	TaskSandboxDenial   = "Sandbox Denial"   // the sandbox refused something
	TaskSandboxMismatch = "Sandbox Mismatch" // the live sandbox is not as declared
	TaskLogs            = "Task Logs"        // a log cannot be written, or can be again
)

// TaskBuildingTaskDir is the message of the Task Setup event.
const TaskBuildingTaskDir = "Building Task Directory"

// DefaultKillTimeout is how long a task has between its kill signal and its end, if
// the job does not say.
const DefaultKillTimeout = 5 * time.Second

// When a task of the lifecycle runs, relative to the main tasks.
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

// Action is a command that a person may run inside a running task by its name.
type Action struct {
	Name    string
	Command string
	Args    []string
}

// LogConfig says how many log files of which size, in MiB, the client keeps for each
// stream of a task.
type LogConfig struct {
	MaxFiles      int
	MaxFileSizeMB int
	Disabled      bool
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
}

// TaskArtifact is a file or directory that is fetched before the task starts.
type TaskArtifact struct {
	GetterSource   string
	GetterOptions  map[string]string
	GetterHeaders  map[string]string
	GetterMode     string
	GetterInsecure bool
	RelativeDest   string
	Chown          bool
}

// TaskEvent is something that happened to a task. The client writes it; Time is in
// Unix nanoseconds. DisplayMessage is for people, Details for programs.
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

// TaskGroupSummary counts the allocations of a group by their state. Queued ones are
// not placed yet.
type TaskGroupSummary struct {
	Queued   int
	Complete int
	Failed   int
	Running  int
	Starting int
	Lost     int
	Unknown  int
}

// TaskKind is what Consul Connect makes a task for, such as connect-proxy:<service>;
// empty for all others.
type TaskKind string

// TaskLifecycleConfig makes a task run before, beside or after the main tasks of its
// group.
type TaskLifecycleConfig struct {
	Hook    string
	Sidecar bool
}

// TaskSchedule limits the hours in which a task runs.
type TaskSchedule struct {
	Cron *TaskScheduleCron
}

// TaskScheduleCron gives the times at which a scheduled task starts and ends.
type TaskScheduleCron struct {
	Start    string
	End      string
	Timezone string
}

// TaskScheduleState reports whether a person or the schedule pauses a task.
type TaskScheduleState string

// TaskState is what became of a task of an allocation. The client writes it and
// sends it with the newest ten events.
type TaskState struct {
	State       string
	Failed      bool
	Restarts    uint64
	LastRestart time.Time
	StartedAt   time.Time
	FinishedAt  time.Time
	Events      []*TaskEvent
	Paused      TaskScheduleState
}
