package taskrunner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// ErrNotRunning is returned by operations that need a running task.
var ErrNotRunning = taskhook.ErrNotRunning

// waitAgain is the delay after a failed wait call of the driver.
const waitAgain = time.Second

// Store keeps the state that survives a restart of the agent (state.DB).
type Store interface {
	PutTask(allocID, task string, t state.Task) error
	PutTaskLater(allocID, task string, t state.Task) error
	PutTaskWithNext(allocID, task string, t state.Task) error
}

// Events delivers the drivers' events about running tasks (driverset.Set).
type Events interface {
	Listen(taskID string, f func(*drivers.TaskEvent)) (stop func())
}

// Config configures a Runner.
type Config struct {
	Alloc  *nomad.Allocation
	Task   *nomad.Task
	Node   *nomad.Node
	Region string
	Driver drivers.Driver
	Events Events // nil: none
	Store  Store
	Dir    *allocdir.Dir
	NetNS  string // path of the allocation's network namespace, "" for the host's
	// NetLabels are the labels of the driver that created NetNS.
	NetLabels map[string]string
	// Network is that of NetNS. Hostname is "" for that of the node.
	Network  *nomad.AllocNetworkStatus
	Hostname string
	// Gate is closed when the task may start. Nil lets it start at once.
	Gate        <-chan struct{}
	Identities  taskhook.Identities
	Tokens      taskhook.ConsulTokens
	VaultTokens taskhook.VaultTokens
	Hooks       taskhook.Deps
	// Changed is called after each change of State. It must not block.
	Changed        func()
	MaxKillTimeout time.Duration
	MHzPerCore     uint64
	Log            *slog.Logger
}

// Runner runs one task. Its exported methods may be called concurrently.
type Runner struct {
	cfg   Config
	name  string
	log   *slog.Logger
	hooks hook.List // never changes
	// labels are the labels of the task's counters. They are never modified.
	labels []metrics.Label
	env    *taskenv.Builder

	record   *record
	requests *requests
	schedule *schedule
	asked    *latch        // closed when the driver has been asked once to recover a stored process
	done     chan struct{} // closed when the task is dead and its stop hooks have run

	// Owned by Run.
	tracker *tracker
	last    outcome
	try     *attempt // nil before the first start or recovery

	mu    sync.Mutex
	alloc *nomad.Allocation
	task  *nomad.Task
	phase Phase
	id    string // of the running process, as given to the driver
	usage *message.TaskResourceUsage
}

// New returns a Runner for a new task.
func New(cfg Config) *Runner {
	r := &Runner{
		cfg: cfg, name: cfg.Task.Name, alloc: cfg.Alloc, task: cfg.Task,
		log:      cfg.Log.With("alloc", cfg.Alloc.ID, "task", cfg.Task.Name),
		requests: newRequests(),
		asked:    newLatch(),
		done:     make(chan struct{}),
		phase:    Pending,
		tracker:  newTracker(cfg.Alloc.Job, cfg.Alloc.Job.TaskGroup(cfg.Alloc.TaskGroup), cfg.Task),
		env: taskenv.New(taskenv.Subject{
			Node: cfg.Node, Region: cfg.Region, Alloc: cfg.Alloc, Task: cfg.Task, Network: cfg.Network,
		}),
	}
	r.record = newRecord(&cfg, r.log)
	r.record.redact = r.env.Redact
	r.schedule = newSchedule(r.log, cfg.Task.Schedule, func(s nomad.TaskScheduleState, e *nomad.TaskEvent) {
		r.record.update(func(state *nomad.TaskState) { state.Paused = s }, e)
	})
	r.labels = cfg.Hooks.Metrics.Labels(cfg.Alloc, cfg.Task)
	r.hooks = hook.List{Kind: "task_hook", Unmeasured: cfg.Hooks.Metrics.NoHooks, Log: r.log, Hooks: taskhook.Order(taskhook.Config{
		Deps: cfg.Hooks, Alloc: cfg.Alloc, Task: cfg.Task, Node: cfg.Node, Dir: cfg.Dir, Capabilities: cfg.Driver.Capabilities(),
		Identities: cfg.Identities, Tokens: cfg.Tokens, VaultTokens: cfg.VaultTokens, Control: r, Usage: r.setUsage, Log: r.log,
	})}
	return r
}

// Run runs the task and returns nil when it is done. If ctx ends first, Run returns its error
// and the process keeps running.
func (r *Runner) Run(ctx context.Context) error {
	defer r.release()
	steps := map[Phase]func(context.Context) (Move, error){
		Recovering: r.recover, Pending: r.pend, Running: r.watch, Exited: r.settle, Restarting: r.rest,
	}
	if r.Phase() == Pending && len(r.State().Events) == 0 {
		r.Emit(&nomad.TaskEvent{Type: nomad.TaskReceived})
	}
	defer r.asked.close()
	if r.Phase() != Terminal {
		r.schedule.begin()
	}
	defer r.schedule.end()
	for phase := r.Phase(); phase != Terminal; {
		if phase != Recovering {
			r.asked.close()
		}
		move, err := steps[phase](ctx)
		if err != nil {
			return err
		}
		if phase, err = Next(phase, move); err != nil {
			return err
		}
		r.log.Debug("task changed phase", "move", move, "phase", phase)
		r.setPhase(phase)
	}
	return r.finish(ctx)
}

// pend waits for the gate and starts the task.
func (r *Runner) pend(ctx context.Context) (Move, error) {
	select {
	case <-r.requests.killed:
		return Kill, nil
	case <-ctx.Done():
		return "", ctx.Err()
	case <-r.gate():
	}
	select {
	case <-r.requests.killed:
		return Kill, nil
	case <-ctx.Done():
		return "", ctx.Err()
	case <-r.schedule.resumable():
	}
	if r.requests.isKilled() {
		return Kill, nil
	}
	r.try = r.newAttempt(ctx)
	err := r.start(ctx)
	switch {
	case err == nil:
		return Started, nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	}
	r.try.end()
	if r.requests.isKilled() {
		return Kill, nil
	}
	if errors.Is(err, errPaused) {
		r.last = outcome{paused: true}
		return StartFailed, nil
	}
	r.emitFault(err)
	r.last = outcome{err: err}
	return StartFailed, nil
}

// gate returns a channel that is closed when the task may start.
func (r *Runner) gate() <-chan struct{} {
	if r.cfg.Gate != nil {
		return r.cfg.Gate
	}
	open := make(chan struct{})
	close(open)
	return open
}

// watch waits for the exit of a running process. It handles kills and restarts meanwhile.
func (r *Runner) watch(ctx context.Context) (Move, error) {
	if r.try == nil { // recovered, not started
		r.resume(ctx)
	}
	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	exits := make(chan *drivers.ExitResult, 1)
	go r.wait(waitCtx, exits)
	var exit *drivers.ExitResult
	var requested, failed, paused bool
	var err error
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case exit = <-exits:
	case <-r.requests.killed:
		if exit, err = r.awaitPreKill(ctx, exits); exit == nil && err == nil {
			exit, err = r.stop(ctx, exits)
		}
	case req := <-r.requests.restarts:
		requested, failed = !req.failed, req.failed
		exit, err = r.stopForNow(ctx, exits, req.event)
		req.done <- err
	case <-r.schedule.pausing():
		paused = true
		exit, err = r.stopForNow(ctx, exits, &nomad.TaskEvent{Type: nomad.TaskPausing})
	}
	if err != nil {
		return "", err
	}
	r.setID("")
	r.try.end()
	r.last = outcome{exit: exit, requested: requested, unhealthy: failed, paused: paused}
	return Exit, nil
}

// stopForNow stops the process of a task that will start again.
func (r *Runner) stopForNow(ctx context.Context, exits <-chan *drivers.ExitResult, e *nomad.TaskEvent) (*drivers.ExitResult, error) {
	hookCtx, cancel := r.requests.untilKilled(ctx)
	r.preKill(hookCtx, &taskhook.TaskPreKillRequest{Event: e})
	cancel()
	return r.stop(ctx, exits)
}

// wait sends the exit of the process, once. It retries after an error of the driver. If the
// driver no longer has the task, the exit code is unknown, which counts as a failure.
func (r *Runner) wait(ctx context.Context, exits chan<- *drivers.ExitResult) {
	id := r.taskID()
	for {
		res, err := r.cfg.Driver.WaitTask(ctx, id)
		switch {
		case err == nil:
			exits <- res
			return
		case ctx.Err() != nil:
			return // the agent shuts down
		case errors.Is(err, drivers.ErrTaskNotFound):
			exits <- &drivers.ExitResult{ExitCode: -1, Err: fmt.Errorf("wait for task: %w", err)}
			return
		}
		r.log.Warn("wait for task", "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(waitAgain):
		}
	}
}

// settle applies the restart policy to a task whose run has ended.
func (r *Runner) settle(ctx context.Context) (Move, error) {
	r.runExited(ctx)
	if r.last.exit != nil {
		r.Emit(terminatedEvent(r.last.exit))
		count(r, "oom_killed", r.last.exit.OOMKilled)
	}
	if r.requests.isKilled() {
		r.setDead(r.killedEvent())
		return End, nil
	}
	if r.last.paused {
		r.record.update(func(s *nomad.TaskState) { s.State = nomad.TaskStatePending }, nil)
		r.dropHandle()
		return Retry, nil
	}
	d := r.tracker.decide(time.Now(), r.last)
	switch {
	case d.restart:
	case d.failed:
		r.setDead(&nomad.TaskEvent{Type: nomad.TaskNotRestarting, RestartReason: d.reason, FailsTask: true})
		return End, nil
	default:
		r.setDead(nil)
		return End, nil
	}
	r.record.update(func(s *nomad.TaskState) { s.State = nomad.TaskStatePending },
		&nomad.TaskEvent{Type: nomad.TaskRestarting, RestartReason: d.reason, StartDelay: d.delay.Nanoseconds()})
	r.last.delay = d.delay
	r.dropHandle()
	return Retry, nil
}

// rest waits for the delay before a restart.
func (r *Runner) rest(ctx context.Context) (Move, error) {
	timer := time.NewTimer(r.last.delay)
	defer timer.Stop()
	for due := false; !due; {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-r.requests.killed:
			return Kill, nil
		case req := <-r.requests.restarts:
			due = !req.failed // a failure does not shorten the delay
			req.done <- nil
		case <-timer.C:
			due = true
		}
	}
	if r.last.paused {
		return Due, nil // not a restart
	}
	r.record.update(func(s *nomad.TaskState) { s.Restarts++; s.LastRestart = time.Now() }, nil)
	count(r, "restart", true)
	return Due, nil
}

// finish marks the task dead and runs its stop hooks. It continues when ctx ends, because the
// remaining work is short.
func (r *Runner) finish(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if r.State().State != nomad.TaskStateDead {
		r.setDead(r.killedEvent())
	}
	if !r.record.local.RunComplete {
		r.runStop(ctx)
		r.record.local.RunComplete = true
		r.dropHandle()
	}
	close(r.done)
	return nil
}

// dropHandle stores that the last exit is handled, and makes the driver drop the task. If storing
// fails, the driver keeps the task, and the next agent handles the same exit again.
func (r *Runner) dropHandle() {
	handle := r.record.local.TaskHandle
	r.record.local.TaskHandle, r.record.local.DriverNetwork = nil, nil
	if err := r.record.storeLocal(); err != nil {
		r.log.Error("store end of task", "err", err)
		return
	}
	if handle == nil {
		return
	}
	err := r.cfg.Driver.DestroyTask(handle.TaskID, true)
	if err != nil && !errors.Is(err, drivers.ErrTaskNotFound) {
		r.log.Warn("destroy task in driver", "err", err)
	}
}

// release ends the hooks' background functions and closes the task directory.
func (r *Runner) release() {
	if r.try != nil {
		r.try.end()
		r.try.closeDir()
	}
}

// dir returns the directory of the task, nil if no hook has opened it yet.
func (r *Runner) dir() *allocdir.Task {
	if r.try == nil {
		return nil
	}
	return r.try.dir
}
