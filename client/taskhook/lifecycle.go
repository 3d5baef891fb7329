package taskhook

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TaskPrestartHook runs before every start, also after a restart, unless the allocation is
// terminal. An error fails the start; a drivers.RecoverableError makes the restart policy
// apply. For a recovered process (Running), an error does not prevent the other hooks from
// running.
type TaskPrestartHook interface {
	hook.Hook
	Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error
}

// TaskPoststartHook runs after the task has started or was recovered by a restarted agent. An
// error is logged and does not stop the task.
type TaskPoststartHook interface {
	hook.Hook
	Poststart(ctx context.Context, req *TaskPoststartRequest, resp *TaskPoststartResponse) error
}

// TaskPreKillHook runs just before a kill or a restart, concurrently with the run loop.
// Prestart may not have run.
type TaskPreKillHook interface {
	hook.Hook
	PreKill(ctx context.Context, req *TaskPreKillRequest, resp *TaskPreKillResponse) error
}

// TaskExitedHook runs after the task has exited, whether or not it restarts. Prestart may not
// have run. If the task was killed, the context is already cancelled.
type TaskExitedHook interface {
	hook.Hook
	Exited(ctx context.Context, req *TaskExitedRequest, resp *TaskExitedResponse) error
}

// TaskUpdateHook runs when the servers have updated the allocation. It runs concurrently with
// every other hook.
type TaskUpdateHook interface {
	hook.Hook
	Update(ctx context.Context, req *TaskUpdateRequest, resp *TaskUpdateResponse) error
}

// TaskEnvHook uses the environment while the process runs. EnvChanged is called after the values of the secret blocks have
// changed, concurrently with every other hook.
type TaskEnvHook interface {
	hook.Hook
	EnvChanged(env *taskenv.Env)
}

// TaskRenderHook renders the templates of a running task on demand, concurrently with every
// other hook. A dry run changes nothing and returns the differences.
type TaskRenderHook interface {
	hook.Hook
	Render(ctx context.Context, dryRun bool) ([]*message.TemplateRender, error)
}

// TaskStopHook runs after the last exit, unless the agent itself is shutting down. It may run
// twice and must only read existing state.
type TaskStopHook interface {
	hook.Hook
	Stop(ctx context.Context, req *TaskStopRequest, resp *TaskStopResponse) error
}

// TaskPrestartRequest is the input of a Prestart hook.
type TaskPrestartRequest struct {
	PreviousState map[string]string // the hook's State of the previous run
	Alloc         *nomad.Allocation
	Task          *nomad.Task
	Resources     *nomad.AllocatedTaskResources
	NomadToken    idtoken.Token  // the task's default identity
	Owner         Owner          // as set by the previous hooks
	Dir           *allocdir.Task // nil before the directory hook, or if that failed for a running task
	Env           *taskenv.Env   // as built by the previous hooks
	// Confine prepares to run programs of the client as this start of the task would run. Call it
	// during Prestart, after the directory hook; the result is valid until the run of the task ends.
	Confine func() (*Confinement, error)
	// Network is that of the allocation's namespace, nil without one. Hostname is that of the task
	// there, "" for the node's.
	Network  *nomad.AllocNetworkStatus
	Hostname string
	// Running is set if the process was started by an earlier agent and is still running.
	Running bool
}

// TaskPrestartResponse is the output of a Prestart hook. Nil fields change nothing.
type TaskPrestartResponse struct {
	Env     map[string]string // replaces the hook's previous variables
	Below   bool              // the hook's variables are below the task's env block, in every start of the task
	HostEnv map[string]string // used only for names that nothing else sets
	Paths   *taskenv.Paths    // the directories as the task sees them
	Dir     *allocdir.Task    // open until the next start or the end
	Owner   *Owner
	Mounts  []drivers.Mount
	Files   []drivers.HostFile
	Devices []drivers.Device // the start fails if the driver does not support devices
	DNS     *drivers.DNS     // for drivers that apply it themselves
	Log     *drivers.LogConfig
	// ArtifactDigests replaces those of the task's state, if not nil.
	ArtifactDigests map[string]string
	State           map[string]string // kept across restarts of the agent
	Done            bool              // do not run again while State is kept; every start gets Env, Mounts, Devices and Files
	// Background runs while the task runs. Its context ends when this run of the task is over
	// or the agent shuts down. The loop waits for it.
	Background func(ctx context.Context)
}

// TaskPoststartRequest is the input of a Poststart hook.
type TaskPoststartRequest struct {
	Exec    Exec                 // nil if the driver does not support exec
	Network *drivers.TaskNetwork // nil if the driver created none
	Env     *taskenv.Env         // as passed to the task
	Stats   StatsSource          // never nil
	Meter   Meter                // nil if the driver cannot measure at once
	Task    *nomad.Task          // as started
	Started time.Time            // of this run
}

// TaskPoststartResponse is the output of a Poststart hook.
type TaskPoststartResponse struct {
	Background func(ctx context.Context) // as in TaskPrestartResponse
}

// TaskPreKillRequest holds the event of the kill or restart.
type TaskPreKillRequest struct {
	Event *nomad.TaskEvent
	// Final reports that the task does not start again. It is false for a restart and a pause.
	Final bool
}

// TaskPreKillResponse is empty.
type TaskPreKillResponse struct{}

// TaskExitedRequest is the result of the task's run. Exit is nil if the task never ran.
type TaskExitedRequest struct {
	Exit *drivers.ExitResult
}

// TaskExitedResponse is empty.
type TaskExitedResponse struct{}

// TaskUpdateRequest holds the updated allocation.
type TaskUpdateRequest struct {
	Alloc *nomad.Allocation
	Task  *nomad.Task
	Env   *taskenv.Env
}

// TaskUpdateResponse is empty.
type TaskUpdateResponse struct{}

// TaskStopRequest is the input of a Stop hook.
type TaskStopRequest struct {
	State map[string]string
	Dir   *allocdir.Task // nil if it was never created
}

// TaskStopResponse is empty.
type TaskStopResponse struct{}

// Owner is the user of a task: the user string for the driver, and the numeric IDs for files
// that the task must read.
type Owner struct {
	User string // "" (the driver's default), a name, "<uid>" or "nomad-<uid>"
	UID  int
	GID  int
}

// Exec runs a command in a task, without input, and returns its output up to a size limit.
type Exec func(ctx context.Context, command []string) ([]byte, *drivers.ExitResult, error)

// Confinement runs programs of the client as the task would run.
type Confinement struct {
	// Run runs s until it ends or ctx ends: see drivers.Confiner.
	Run func(ctx context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error)
	// By names what confines it: the driver, or the client for drivers that cannot.
	By string
	// Memory is the limit of the programs before the task starts, in bytes; 0 is none.
	Memory int64
}

// StatsSource streams the resource usage of the started task.
type StatsSource func(ctx context.Context, interval time.Duration) (<-chan *drivers.ResourceUsage, error)

// Meter returns the function that measures the started task (drivers.Meterer).
type Meter func() (measure func() *drivers.ResourceUsage, err error)

// Control changes the task of a hook outside the hook methods.
type Control interface {
	// Emit adds an event to the task's state.
	Emit(e *nomad.TaskEvent)
	// SetEnv replaces the named hook's environment variables for later starts.
	SetEnv(hook string, env map[string]string)
	// SetSecrets replaces the values of the task's secret blocks, by NAME.KEY. It calls EnvChanged of the hooks.
	SetSecrets(values map[string]string)
	// Restart stops the running process and starts the task again. The restart policy does not
	// count it.
	Restart(ctx context.Context, e *nomad.TaskEvent) error
	// RestartFailed is Restart as after a failure: the restart policy decides whether and when the task starts again.
	RestartFailed(ctx context.Context, e *nomad.TaskEvent) error
	// Signal sends a signal by name.
	Signal(e *nomad.TaskEvent, signal string) error
	// Kill stops the task permanently. An event with FailsTask marks it failed.
	Kill(ctx context.Context, e *nomad.TaskEvent) error
}
