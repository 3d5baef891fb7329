// Package allocrunner runs one allocation: its hooks, and its tasks in the order
// of their lifecycle.
//
//	new ──Run──▶ prerun ──hooks──▶ running ──last task over──▶ over ──Destroy──▶ gone
//	               └────fault────────────────────────────────────▲
//
// Tasks begin and end by rules on the states of all of them (lifecycle.go), which
// are looked at again after each change:
//
//	prestart ─▶ main ─▶ poststart        main over ─▶ sidecars stopped, poststop
//	a task failed ─▶ the others stopped  leader over ─▶ the others stopped
//
// An agent that shuts down ends Run's context: the processes go on, and the next
// agent takes them over by Restore before Run.
//
// Goroutines: Run, one a task, and the Background functions of the hooks; all end
// with Run. Kills run in goroutines of their own that Run waits for. What the
// servers are told leaves from Run's goroutine alone, in order.
package allocrunner

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/identity"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/nomad"
)

// Runner runs one allocation. Its methods may be called concurrently.
type Runner struct {
	cfg   Config
	log   *slog.Logger
	group *nomad.TaskGroup // as the allocation was first seen
	hooks hook.List        // never changes
	ids   *identity.Manager

	wake    chan struct{} // buffered 1: a state changed
	updates chan struct{} // buffered 1: the update hooks are yet to be called
	changed chan struct{} // buffered 1: the same, for the health hook
	over    chan struct{} // closed when Run has seen the last task end
	begun   chan struct{} // closed when the tasks have runners, or never get any
	reruns  chan chan error
	gates   map[string]chan struct{} // owned by Run

	mu        sync.Mutex
	alloc     *nomad.Allocation
	tasks     map[string]*taskrunner.Runner // nil before prerun is through
	states    map[string]*nomad.TaskState   // of tasks that have no runner
	stored    map[string]state.Task         // from before the agent restarted
	deploy    *nomad.AllocDeploymentStatus
	deployNew bool             // deploy is not on disk yet
	stopping  *nomad.TaskEvent // why every task is to end
	stopAt    time.Time        // when: after the group's shutdown delay
	killing   map[string]bool
	network   *nomad.AllocNetworkStatus // nil for the host's
	fault     string                    // why the tasks could not be run
}

// New returns a Runner for an allocation.
func New(cfg Config) (*Runner, error) {
	if cfg.Alloc.Job == nil {
		return nil, fmt.Errorf("allocation %s has no job", cfg.Alloc.ID)
	}
	group := cfg.Alloc.Job.TaskGroup(cfg.Alloc.TaskGroup)
	if group == nil {
		return nil, fmt.Errorf("allocation %s: its job has no group %q", cfg.Alloc.ID, cfg.Alloc.TaskGroup)
	}
	r := &Runner{
		cfg: cfg, log: cfg.Log.With("alloc", cfg.Alloc.ID), group: group,
		wake: make(chan struct{}, 1), updates: make(chan struct{}, 1), changed: make(chan struct{}, 1), over: make(chan struct{}), begun: make(chan struct{}),
		reruns: make(chan chan error),
		gates:  map[string]chan struct{}{}, alloc: cfg.Alloc, deploy: cfg.Alloc.DeploymentStatus,
		states: map[string]*nomad.TaskState{}, killing: map[string]bool{},
	}
	for _, task := range group.Tasks {
		r.gates[task.Name] = make(chan struct{})
		r.states[task.Name] = &nomad.TaskState{State: nomad.TaskStatePending}
	}
	r.ids = identity.New(identity.Config{
		Alloc: cfg.Alloc, Region: cfg.Region, RPC: cfg.RPC, Store: cfg.Store, Log: cfg.Log,
	})
	r.hooks = hook.List{Kind: "alloc_hook", Unmeasured: cfg.Metrics.NoHooks, Log: r.log, Hooks: allochook.Order(allochook.Config{
		Alloc: cfg.Alloc, AllocDir: cfg.AllocDir, Networks: cfg.Networks, Drivers: cfg.Drivers, Identities: r.ids, Tasks: r, Log: cfg.Log,
	})}
	return r, nil
}

// Restore reads what an earlier agent left of the allocation and takes back the
// uids it was lent. It is called before Run, and before any other allocation may
// be lent a uid.
func (r *Runner) Restore() error {
	stored, err := r.cfg.Store.Tasks(r.cfg.Alloc.ID)
	if err != nil {
		return err
	}
	deploy, err := r.cfg.Store.DeployStatus(r.cfg.Alloc.ID)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.stored = stored
	if deploy != nil {
		r.deploy = deploy
	}
	for name, t := range stored {
		if t.State != nil && r.states[name] != nil {
			r.states[name] = t.State
		}
	}
	r.mu.Unlock()
	return r.claimUsers(stored)
}

// Run runs the tasks until the last one is over, which is nil, or until ctx is
// done: then the processes go on and Run returns ctx's error.
func (r *Runner) Run(ctx context.Context) error {
	defer r.setBegun()
	if !r.finished() {
		if err := r.run(ctx); err != nil {
			return err
		}
	}
	r.postrun(ctx)
	r.cfg.Update(r.report())
	close(r.over)
	return nil
}

// run is Run for an allocation that is not over yet. It leaves nothing behind.
func (r *Runner) run(ctx context.Context) error {
	if r.Alloc().ServerTerminalStatus() { // the agent was away when it was to end
		r.requestStop("the servers want it gone")
	}
	beside, cancel := context.WithCancel(ctx)
	var background, work sync.WaitGroup
	defer background.Wait()
	defer cancel()
	got, err := r.prerun(ctx, func(fn func(context.Context)) { background.Go(func() { fn(beside) }) })
	if got.dir != nil {
		defer got.dir.Close()
	}
	if err == nil {
		err = r.begin(ctx, got, &work)
	}
	switch {
	case ctx.Err() != nil:
		work.Wait()
		return ctx.Err()
	case err != nil:
		r.setBegun()
		return r.fail(ctx, got, err)
	}
	background.Go(func() { r.runUpdates(beside) })
	return r.loop(ctx, &work)
}

// begin starts the runners of the tasks.
func (r *Runner) begin(ctx context.Context, got prepared, work *sync.WaitGroup) error {
	tasks, err := r.runners(got)
	if err != nil {
		return err
	}
	for name, t := range tasks {
		if stored, ok := r.stored[name]; ok {
			t.Restore(stored)
		}
	}
	r.mu.Lock()
	r.tasks = tasks
	r.mu.Unlock()
	r.setBegun()
	for name, t := range tasks {
		r.goRun(ctx, work, name, t)
	}
	return nil
}

func (r *Runner) setBegun() {
	select {
	case <-r.begun: // only Run's goroutine closes it
	default:
		close(r.begun)
	}
}

// AwaitRecovery returns when the drivers were asked once for the processes that an earlier
// agent left, or when ctx ends. Run must be running.
func (r *Runner) AwaitRecovery(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-r.begun:
	}
	r.mu.Lock()
	tasks := r.tasks
	r.mu.Unlock()
	for _, t := range tasks {
		select {
		case <-ctx.Done():
			return
		case <-t.Asked():
		}
	}
}

// goRun runs one task beside the loop.
func (r *Runner) goRun(ctx context.Context, work *sync.WaitGroup, name string, t *taskrunner.Runner) {
	work.Go(func() {
		if err := t.Run(ctx); err != nil && ctx.Err() == nil {
			r.log.Error("task runner ended", "task", name, "err", err)
		}
		r.nudge()
	})
}

// loop looks at the tasks after each change until all are over.
func (r *Runner) loop(ctx context.Context, work *sync.WaitGroup) error {
	for {
		r.step(ctx, work)
		r.cfg.Update(r.report())
		r.storeHealth()
		if r.allDone() {
			work.Wait()
			return nil
		}
		select {
		case <-ctx.Done():
			work.Wait()
			return ctx.Err()
		case <-r.wake:
		case <-r.delayOver():
		case done := <-r.reruns:
			done <- r.rerun(ctx, work)
		}
	}
}

// step opens the gates of the tasks whose turn has come and stops those that
// are to end.
func (r *Runner) step(ctx context.Context, work *sync.WaitGroup) {
	stopping, wait := r.stopDue()
	if wait > 0 {
		stopping = nil
	}
	next := decide(r.group.Tasks, r.States(), stopping)
	for _, name := range next.start {
		if next.stop[name] != nil {
			continue
		}
		select {
		case <-r.gates[name]:
		default:
			close(r.gates[name])
		}
	}
	for name, event := range next.stop {
		r.kill(ctx, work, name, event)
	}
}

// kill ends one task, once, beside the loop.
func (r *Runner) kill(ctx context.Context, work *sync.WaitGroup, name string, event *nomad.TaskEvent) {
	r.mu.Lock()
	t, begun := r.tasks[name], r.killing[name]
	r.killing[name] = true
	r.mu.Unlock()
	if begun || t == nil {
		return
	}
	work.Go(func() {
		if err := t.Kill(ctx, event); err != nil && ctx.Err() == nil {
			r.log.Error("kill task", "task", name, "err", err)
		}
	})
}

// fail ends an allocation whose tasks cannot be run. Processes that an earlier
// agent left are ended too. When ctx ends first, the next agent does the rest.
func (r *Runner) fail(ctx context.Context, got prepared, err error) error {
	r.log.Error("allocation cannot run", "err", err)
	for _, task := range r.group.Tasks {
		if err := r.endProcess(ctx, task); err != nil {
			return err
		}
	}
	r.cleanUp(ctx, got)
	r.mu.Lock()
	r.fault = err.Error()
	for name, s := range r.states {
		if s.State != nomad.TaskStateDead {
			r.states[name] = taskrunner.SetupFailed(s, err)
		}
	}
	r.mu.Unlock()
	for _, task := range r.group.Tasks {
		r.storeEnd(task.Name)
	}
	return nil
}

// cleanUp runs the stop hooks of tasks that an earlier agent ran.
func (r *Runner) cleanUp(ctx context.Context, got prepared) {
	if got.dir == nil {
		return
	}
	tasks, err := r.runners(got)
	if err != nil {
		r.log.Warn("stop hooks not run", "err", err)
		return
	}
	for name, t := range tasks {
		if stored, ok := r.stored[name]; ok {
			t.Restore(stored)
			t.Abandon(ctx)
		}
	}
}

// storeEnd stores that a task without a process is over.
func (r *Runner) storeEnd(task string) {
	r.mu.Lock()
	stored, s := r.stored[task], r.states[task]
	r.mu.Unlock()
	local := &state.LocalState{RunComplete: true}
	if stored.Local != nil {
		local.Hooks = stored.Local.Hooks
	}
	if err := r.cfg.Store.PutTask(r.cfg.Alloc.ID, task, state.Task{Local: local, State: s}); err != nil {
		r.log.Error("end of task not stored", "task", task, "err", err)
	}
}

// allDone says whether every task is over and cleaned up.
func (r *Runner) allDone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tasks {
		select {
		case <-t.Done():
		default:
			return false
		}
	}
	return true
}

// finished says whether an earlier agent saw all tasks to their end.
func (r *Runner) finished() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, task := range r.group.Tasks {
		stored := r.stored[task.Name]
		if stored.Local == nil || !stored.Local.RunComplete {
			return false
		}
	}
	return true
}

func (r *Runner) nudge() {
	for _, ch := range []chan struct{}{r.wake, r.changed} {
		select {
		case ch <- struct{}{}:
		default: // the last change is not looked at yet
		}
	}
}
