package allochook

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// restartPoll is how often check_restart blocks are evaluated.
const restartPoll = time.Second

// observeHook begins checks and observes those of new versions. It precedes the hook of the group's services, whose
// health it determines. checksHook, after that hook, does everything else. Both have the same name and no moment in
// common, so they are one hook in metrics.
type observeHook struct{ checks *checksHook }

func (o observeHook) Name() string { return o.checks.Name() }

// checksHook runs the checks of the group's services and its tasks' services, and restarts tasks by their
// check_restart blocks. Before the tasks are stopped it ends the checks and removes their results.
type checksHook struct {
	set    *check.Set // nil if the client has none
	id     string
	node   *nomad.Node
	region string
	tasks  Tasks
	log    *slog.Logger

	changed wake.Signal // targets or rewatch have changed

	mu      sync.Mutex
	network *nomad.AllocNetworkStatus
	netNS   string
	running bool // checks were observed, so that watch runs
	targets []*check.Target
	rewatch bool // all check_restart blocks begin again
	over    bool
}

func newChecksHook(c Config) *checksHook {
	return &checksHook{set: c.Checks, id: c.Alloc.ID, node: c.Node, region: c.Region, tasks: c.Tasks, log: c.Log, changed: wake.New()}
}

func (*checksHook) Name() string { return "checks_hook" }

func (o observeHook) Prerun(_ context.Context, req *PrerunRequest, resp *PrerunResponse) error {
	h := o.checks
	if h.set == nil || req.Alloc.TerminalStatus() {
		return nil
	}
	h.mu.Lock()
	h.network, h.netNS = req.Network, req.NetNS
	h.mu.Unlock()
	h.observe(req.Alloc)
	resp.Background = h.begin()
	return nil
}

// begin returns the function that runs the checks, once there are any; nil before, and afterwards.
func (h *checksHook) begin() func(context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running || len(h.targets) == 0 {
		return nil
	}
	h.running = true
	return h.watch
}

// watch runs the checks until ctx ends.
func (h *checksHook) watch(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { h.restartUnhealthy(ctx) })
	h.mu.Lock()
	netNS := h.netNS
	h.mu.Unlock()
	h.set.Watch(ctx, h.id, netNS)
	both.Wait()
}

// Update observes the checks of the new version.
func (o observeHook) Update(_ context.Context, req *UpdateRequest, resp *UpdateResponse) error {
	h := o.checks
	if h.set != nil && !req.Alloc.TerminalStatus() {
		h.observe(req.Alloc)
		resp.Background = h.begin()
	}
	return nil
}

// PreTaskRestart begins the grace of the check_restart blocks again.
func (h *checksHook) PreTaskRestart(context.Context, *PreTaskRestartRequest) error {
	h.mu.Lock()
	h.rewatch = true
	h.mu.Unlock()
	h.changed.Send()
	return nil
}

// PreKill ends the checks.
func (h *checksHook) PreKill(context.Context, *PreKillRequest) error { return h.end() }

// Postrun ends the checks of tasks that have ended by themselves.
func (h *checksHook) Postrun(context.Context) error { return h.end() }

func (h *checksHook) end() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over, h.targets = true, nil
	if h.set != nil {
		h.set.Forget(h.id)
	}
	h.changed.Send()
	return nil
}

// observe replaces the checks by those of the allocation.
func (h *checksHook) observe(a *nomad.Allocation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	targets := h.targetsOf(a)
	if len(targets) == 0 && len(h.targets) == 0 {
		return
	}
	h.rewatch = h.rewatch || !sameRestarts(h.targets, targets)
	h.targets = targets
	h.set.Observe(h.id, targets)
	h.changed.Send()
}

// targetsOf returns the checks of the group and its tasks. Those of tasks see no values that other hooks set, since
// they also run before the task starts.
func (h *checksHook) targetsOf(a *nomad.Allocation) []*check.Target {
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil {
		return nil
	}
	var out []*check.Target
	if len(group.Services) > 0 {
		w := service.OfGroup(a, h.node, h.region, h.network)
		out = check.Targets(&w)
	}
	for _, task := range group.Tasks {
		if len(task.Services) == 0 {
			continue
		}
		env := taskenv.New(taskenv.Subject{Node: h.node, Region: h.region, Alloc: a, Task: task, Network: h.network}).Build()
		w := service.OfTask(a, h.node, task, env)
		out = append(out, check.Targets(&w)...)
	}
	return out
}

// sameRestarts reports whether two lists have the same checks with the same check_restart blocks.
func sameRestarts(a, b []*check.Target) bool {
	return slices.EqualFunc(a, b, func(x, y *check.Target) bool {
		return x.ID == y.ID && (x.Restart == nil) == (y.Restart == nil) && (x.Restart == nil || *x.Restart == *y.Restart)
	})
}

// restartUnhealthy restarts tasks whose checks fail for too long, until ctx ends.
func (h *checksHook) restartUnhealthy(ctx context.Context) {
	var r check.Restarts
	started := map[string]time.Time{}
	ticker := time.NewTicker(restartPoll)
	defer ticker.Stop()
	for {
		h.mu.Lock()
		targets, rewatch := h.targets, h.rewatch
		h.rewatch = false
		h.mu.Unlock()
		tick := ticker.C
		if !slices.ContainsFunc(targets, func(t *check.Target) bool { return t.Restart != nil }) {
			tick, r, started = nil, check.Restarts{}, map[string]time.Time{}
		} else {
			if rewatch {
				clear(started)
			}
			h.follow(&r, targets, started)
			for _, due := range r.Poll(h.set.Results(h.id), time.Now()) {
				h.restart(ctx, due)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-h.changed:
		case <-tick:
		}
	}
}

// groupKey is the key of the group in the map of follow. A task cannot have this name.
const groupKey = ""

// follow watches the checks of each task from its start to its end, and those of the group while no task is paused: they
// fail when a paused task has to answer them. started has the start of each watch.
func (h *checksHook) follow(r *check.Restarts, targets []*check.Target, started map[string]time.Time) {
	now, states := time.Now(), h.tasks.States()
	switch _, watched := started[groupKey]; {
	case anyPaused(states):
		delete(started, groupKey)
		r.Unwatch(groupKey)
	case !watched:
		started[groupKey] = now
		r.Watch(groupKey, targets, now)
	}
	for name, s := range states {
		last, known := started[name]
		switch running := s.State == nomad.TaskStateRunning; {
		case running && (!known || !last.Equal(s.StartedAt)):
			started[name] = s.StartedAt
			r.Watch(name, targets, now)
		case !running && known:
			delete(started, name)
			r.Unwatch(name)
		}
	}
}

// restart restarts a task, or all running tasks for a service of the group.
func (h *checksHook) restart(ctx context.Context, due check.Due) {
	h.log.Info("restart after a failed check", "alloc", h.id, "task", due.Task, "check", string(due.Check))
	if err := h.tasks.RestartUnhealthy(ctx, due.Task, due.Reason); err != nil && ctx.Err() == nil {
		h.log.Warn("restart after a failed check", "alloc", h.id, "task", due.Task, "err", err)
	}
}
