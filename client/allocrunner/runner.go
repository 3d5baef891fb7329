// Package allocrunner runs one allocation: its hooks, and its tasks in lifecycle order.
//
//	new ──Run──▶ prerun ──hooks──▶ running ──last task over──▶ over ──Destroy──▶ gone
//	               └────fault────────────────────────────────────▲
//
// Tasks start and stop by rules on the states of all tasks (lifecycle.go). The rules are
// evaluated again after each state change:
//
//	prestart ─▶ main ─▶ poststart        main over ─▶ sidecars stopped, poststop
//	a task failed ─▶ the others stopped  leader over ─▶ the others stopped
//
// When the agent shuts down, it cancels Run's context. The processes keep running, and the next
// agent calls Restore and then Run to take them over.
//
// Goroutines: Run, one per task, one per kill, one per update, and the Background functions of the hooks.
// All end before Run returns. Only Run's goroutine calls Config.Update, so statuses are reported in order.
package allocrunner

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/consul/token"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/identity"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskrunner"
	vaulttoken "github.com/open-nomad/open-nomad/client/vault/token"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
)

// Runner runs one allocation. Its methods may be called concurrently.
type Runner struct {
	cfg    Config
	log    *slog.Logger
	group  *nomad.TaskGroup // as of the first version of the allocation
	hooks  hook.List        // never changes
	ids    *identity.Manager
	tokens *token.Manager // of Consul
	vault  *vaulttoken.Manager

	wake      wake.Signal   // a state changed
	updates   wake.Signal   // the update hooks must run
	changed   wake.Signal   // the same as wake, for the health hook
	over      chan struct{} // closed when all tasks are dead and cleaned up
	begun     chan struct{} // closed when the task runners exist, or can never exist
	reruns    chan chan error
	stopAsked chan struct{}            // closed when all tasks must stop
	gates     map[string]chan struct{} // owned by Run

	mu                    sync.Mutex
	alloc                 *nomad.Allocation
	tasks                 map[string]*taskrunner.Runner // nil until the prerun hooks have run
	states                map[string]*nomad.TaskState   // of tasks without a runner
	stored                map[string]state.Task         // from before the agent's restart
	deploy                *nomad.AllocDeploymentStatus
	deployNew             bool             // deploy is not stored yet
	stopping              *nomad.TaskEvent // why all tasks must stop, nil otherwise
	stopAt                time.Time        // stop time, after the group's shutdown delay
	delaying              bool             // stopAt is set
	preKilling, preKilled bool             // the pre-kill hooks have begun, or finished
	expired               bool             // max_run_duration has passed: poststop tasks end too
	killing               map[string]bool
	notes                 []note                    // for the tasks that do not exist yet
	network               *nomad.AllocNetworkStatus // nil for the host's network
	netNS                 string                    // "" for the host's network
	fault                 string                    // why the tasks could not be run
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
		wake: wake.New(), updates: wake.New(), changed: wake.New(), over: make(chan struct{}),
		begun:  make(chan struct{}),
		reruns: make(chan chan error), stopAsked: make(chan struct{}),
		gates: map[string]chan struct{}{}, alloc: cfg.Alloc, deploy: cfg.Alloc.DeploymentStatus,
		states: map[string]*nomad.TaskState{}, killing: map[string]bool{},
	}
	for _, task := range group.Tasks {
		r.gates[task.Name] = make(chan struct{})
		r.states[task.Name] = &nomad.TaskState{State: nomad.TaskStatePending}
	}
	r.ids = identity.New(identity.Config{
		Alloc: cfg.Alloc, Node: cfg.Node, Region: cfg.Region, RPC: cfg.RPC, Store: cfg.Store, Log: cfg.Log,
	})
	r.tokens = cfg.AllocHooks.Tokens.NewManager(token.Config{Alloc: cfg.Alloc, Node: cfg.Node, Region: cfg.Region, Identities: r.ids,
		Emit: r.announce})
	r.vault = cfg.AllocHooks.Vault.NewManager(vaulttoken.Config{Alloc: cfg.Alloc, Identities: r.ids, Emit: r.announce})
	r.hooks = hook.List{Kind: "alloc_hook", Unmeasured: cfg.TaskHooks.Metrics.NoHooks, Log: r.log, Hooks: allochook.Order(allochook.Config{
		Deps: cfg.AllocHooks, Alloc: cfg.Alloc, Node: cfg.Node, Region: cfg.Region, Identities: r.ids, Tokens: r.tokens,
		VaultTokens: r.vault, Tasks: r, Start: r, Log: cfg.Log,
	})}
	return r, nil
}

// Restore reads the stored state of the allocation and reserves the uids of its tasks. It must
// be called before Run, and before Users assigns a uid to another allocation.
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

// Run runs the tasks and returns nil when the last one is dead and the allocation is cleaned up. If ctx ends while a task
// lives, Run returns its error and the processes keep running.
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

// run is Run for an allocation with tasks that are not finished. Its goroutines end with it.
func (r *Runner) run(ctx context.Context) error {
	if r.Alloc().ServerTerminalStatus() { // the stop was requested while no agent ran
		r.requestStop()
	}
	bgCtx, cancel := context.WithCancel(ctx)
	var background, work sync.WaitGroup
	var got prepared
	defer func() {
		if got.dir != nil {
			got.dir.Close() // background functions use it until their end
		}
	}()
	defer background.Wait()
	defer cancel()
	start := func(fn func(context.Context)) { background.Go(func() { fn(bgCtx) }) }
	var err error
	if got, err = r.prerun(ctx, start); err == nil {
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
	return r.loop(ctx, &work, start)
}

// begin starts the task runners.
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
	notes := r.notes
	r.mu.Unlock()
	for _, n := range notes {
		for name, t := range tasks {
			if n.task == "" || n.task == name {
				t.Emit(n.event)
			}
		}
	}
	r.setBegun()
	for name, t := range tasks {
		r.goRun(ctx, work, name, t)
	}
	return nil
}

func (r *Runner) setBegun() {
	select {
	case <-r.begun: // closed by Run's goroutine only
	default:
		close(r.begun)
	}
}

// AwaitRecovery waits until the drivers have been asked once to recover the tasks of an earlier
// agent, or until ctx ends. Run must be running.
func (r *Runner) AwaitRecovery(ctx context.Context) {
	if !r.Started() {
		return // it may wait for another allocation
	}
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

// goRun starts a task runner in a goroutine.
func (r *Runner) goRun(ctx context.Context, work *sync.WaitGroup, name string, t *taskrunner.Runner) {
	work.Go(func() {
		if err := t.Run(ctx); err != nil && ctx.Err() == nil {
			r.log.Error("task runner ended", "task", name, "err", err)
		}
		r.nudge()
	})
}

// loop evaluates the tasks after each change until all are done. The update hooks run in a goroutine, through start.
// If several updates arrive while they run, only the newest is used.
func (r *Runner) loop(ctx context.Context, work *sync.WaitGroup, start func(func(context.Context))) error {
	updates, updated := r.updates, make(chan struct{}, 1)
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
			if r.allDone() {
				return nil
			}
			return ctx.Err()
		case <-r.wake:
		case <-updates:
			updates = nil // until the hooks have run
			start(func(ctx context.Context) {
				r.runUpdates(ctx, start)
				updated <- struct{}{}
			})
		case <-updated:
			updates = r.updates
		case <-r.delayOver():
		case done := <-r.reruns:
			done <- r.rerun(ctx, work)
		}
	}
}

// step opens the gates of the tasks that may start and kills the tasks that must stop. Before the first kill it waits
// for the pre-kill hooks, which call it again.
func (r *Runner) step(ctx context.Context, work *sync.WaitGroup) {
	stopping, _ := r.stopDue()
	if stopping != nil {
		if !r.preKill(ctx, work) {
			return
		}
		r.beginDelay()
		if _, wait := r.stopDue(); wait > 0 {
			stopping = nil
		}
	}
	next := decide(r.group.Tasks, r.States(), stopping)
	if r.isExpired() {
		next.stopAll(r.group.Tasks, r.States())
	}
	if len(next.stop) > 0 && !r.preKill(ctx, work) {
		return
	}
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

// kill stops one task in a goroutine, once.
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

// fail ends an allocation whose tasks cannot be run. It also ends processes of an earlier
// agent. If ctx ends first, the next agent completes the work.
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

// cleanUp runs the stop hooks of tasks of an earlier agent.
func (r *Runner) cleanUp(ctx context.Context, got prepared) {
	if got.dir == nil {
		return
	}
	tasks, err := r.runners(got)
	if err != nil {
		r.log.Warn("run stop hooks", "err", err)
		return
	}
	for name, t := range tasks {
		if stored, ok := r.stored[name]; ok {
			t.Restore(stored)
			t.Abandon(ctx)
		}
	}
}

// storeEnd stores that a task without a process is finished.
func (r *Runner) storeEnd(task string) {
	r.mu.Lock()
	stored, s := r.stored[task], r.states[task]
	r.mu.Unlock()
	local := &state.LocalState{RunComplete: true}
	if stored.Local != nil {
		local.Hooks = stored.Local.Hooks
	}
	if err := r.cfg.Store.PutTask(r.cfg.Alloc.ID, task, state.Task{Local: local, State: s}); err != nil {
		r.log.Error("store end of task", "task", task, "err", err)
	}
}

// allDone reports whether every task is dead and cleaned up.
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

// finished reports whether an earlier agent finished all tasks.
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
	r.wake.Send()
	r.changed.Send()
}
