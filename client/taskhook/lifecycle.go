package taskhook

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/taskenv"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TaskPrestartHook acts before every start, also after a restart, but not when
// the allocation is terminal. An error is a failed start; wrapped in a
// drivers.RecoverableError the restart policy applies. For a process that runs already
// (Running) the error of one hook keeps no other hook from acting.
type TaskPrestartHook interface {
	hook.Hook
	Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error
}

// TaskPoststartHook acts once the task runs, also when a restarted agent found
// it running. An error is logged and does not stop the task.
type TaskPoststartHook interface {
	hook.Hook
	Poststart(ctx context.Context, req *TaskPoststartRequest, resp *TaskPoststartResponse) error
}

// TaskPreKillHook acts just before a kill or a restart, concurrently with the
// run loop and perhaps with no prestart before.
type TaskPreKillHook interface {
	hook.Hook
	PreKill(ctx context.Context, req *TaskPreKillRequest, resp *TaskPreKillResponse) error
}

// TaskExitedHook acts after the task exited, whether or not it restarts.
// Prestart may not have run. The context of a task that was killed has ended.
type TaskExitedHook interface {
	hook.Hook
	Exited(ctx context.Context, req *TaskExitedRequest, resp *TaskExitedResponse) error
}

// TaskUpdateHook acts when the servers changed the allocation. It runs
// concurrently with every other hook and must be safe for it.
type TaskUpdateHook interface {
	hook.Hook
	Update(ctx context.Context, req *TaskUpdateRequest, resp *TaskUpdateResponse) error
}

// TaskStopHook acts after the last exit. It always runs unless the agent itself
// is shutting down, may run twice, and reads existing state only.
type TaskStopHook interface {
	hook.Hook
	Stop(ctx context.Context, req *TaskStopRequest, resp *TaskStopResponse) error
}

// TaskPrestartRequest is what a hook is told before a start.
type TaskPrestartRequest struct {
	PreviousState map[string]string // what this hook's State was last time
	Alloc         *nomad.Allocation
	Task          *nomad.Task
	Resources     *nomad.AllocatedTaskResources
	NomadToken    nomad.Token    // the task's default identity
	VaultToken    string         // empty until there is a Vault hook
	Owner         Owner          // as far as a hook before has set it
	Dir           *allocdir.Task // nil before the hook that makes it, or when that failed for a running task
	Env           *taskenv.Env   // as built by the hooks before
	// Running says that the process runs already: an earlier agent started it.
	Running bool
}

// TaskPrestartResponse is what a hook adds to the start. What is left nil changes
// nothing.
type TaskPrestartResponse struct {
	Env     map[string]string // replaces what this hook gave before
	HostEnv map[string]string // used only where nothing else sets the name
	Paths   *taskenv.Paths    // the directories as the task sees them
	Dir     *allocdir.Task    // held until the next start or the end
	Owner   *Owner
	Mounts  []drivers.Mount
	Files   []drivers.HostFile
	Devices []string // paths on the host; a driver that cannot give them fails the start
	Log     *drivers.LogConfig
	State   map[string]string // kept over restarts of the agent
	Done    bool              // do not run again while State lives; every start gets Env, Mounts, Devices and Files
	// Background runs beside the task. Its context ends when this run of the task
	// is over or the agent shuts down, and the loop waits for it.
	Background func(ctx context.Context)
}

// TaskPoststartRequest is what a hook is told of a started task.
type TaskPoststartRequest struct {
	Exec    Exec           // nil when the driver cannot
	Network *DriverNetwork // nil when the driver made none
	Env     *taskenv.Env   // as the task was given it
	Stats   StatsSource    // never nil
	Task    *nomad.Task    // as started
	Started time.Time      // of this run
}

// TaskPoststartResponse is what a hook does beside the running task.
type TaskPoststartResponse struct {
	Background func(ctx context.Context) // as in TaskPrestartResponse
}

// TaskPreKillRequest tells why the task is about to end.
type TaskPreKillRequest struct {
	Event *nomad.TaskEvent
}

// TaskPreKillResponse is empty.
type TaskPreKillResponse struct{}

// TaskExitedRequest tells how the task ended; Exit is nil when it never ran.
type TaskExitedRequest struct {
	Exit *drivers.ExitResult
}

// TaskExitedResponse is empty.
type TaskExitedResponse struct{}

// TaskUpdateRequest carries the allocation as the servers have it now.
type TaskUpdateRequest struct {
	Alloc *nomad.Allocation
	Task  *nomad.Task
	Env   *taskenv.Env
}

// TaskUpdateResponse is empty.
type TaskUpdateResponse struct{}

// TaskStopRequest is what a hook has to clean up.
type TaskStopRequest struct {
	State map[string]string
	Dir   *allocdir.Task // nil when it was never built
}

// TaskStopResponse is empty.
type TaskStopResponse struct{}

// Owner is who a task runs as: the user word for the driver and, for files that
// the task must read, the numbers behind it.
type Owner struct {
	User string // "" (the driver's default), a name, "<uid>" or "nomad-<uid>"
	UID  int
	GID  int
}

// Exec runs a command inside a task, without input, and returns the first of what it
// writes.
type Exec func(ctx context.Context, command []string) ([]byte, *drivers.ExitResult, error)

// DriverNetwork is a network that a driver made for the task.
type DriverNetwork struct {
	IP      string
	PortMap map[string]int
}

// StatsSource streams the resource usage of the task that just started.
type StatsSource func(ctx context.Context, interval time.Duration) (<-chan *drivers.ResourceUsage, error)

// Control is what a hook may do to its task from outside the six moments.
type Control interface {
	// Emit adds an event to the task's state.
	Emit(e *nomad.TaskEvent)
	// SetEnv replaces what the named hook gave to the environment of later starts.
	SetEnv(hook string, env map[string]string)
	// Restart ends the running process and starts anew, outside the restart policy.
	Restart(ctx context.Context, e *nomad.TaskEvent) error
	// Signal sends a signal by name.
	Signal(e *nomad.TaskEvent, signal string) error
	// Kill ends the task for good; an event that fails the task marks it failed.
	Kill(ctx context.Context, e *nomad.TaskEvent) error
}
