package allochook

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
)

// healthHook sets the allocation's health, in its deployment or, without one, as a replacement of an
// allocation that left a draining node. It is healthy if all tasks have been up for min_healthy_time
// without a restart before healthy_deadline. With health_check = "checks", all checks must have succeeded during the
// same time; failures of readiness checks do not matter. The update block of the group has these times, or without
// a deployment its migrate block. The health is set once, and again for each deployment.
//
//	waiting ──all tasks up──▶ counting ──min_healthy_time──▶ healthy
//	   ▲  └──task dead, deadline──┐ │ └─a task restarts─▶ waiting
//	   └───new deployment───  unhealthy ◀┘
type healthHook struct {
	tasks   Tasks
	checks  *check.Set // nil for none
	log     *slog.Logger
	updates newest

	mu         sync.Mutex
	deployment string // the newest one
	following  bool   // follow runs
}

func newHealthHook(c Config) hook.Hook {
	return &healthHook{tasks: c.Tasks, checks: c.Checks, log: c.Log, updates: newNewest()}
}

func (*healthHook) Name() string { return "health" }

func (h *healthHook) Prerun(_ context.Context, req *PrerunRequest, resp *PrerunResponse) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	resp.Background = h.begin(req.Alloc)
	return nil
}

// begin returns the function that follows the health of an allocation whose health must be set, else nil. The caller
// holds mu.
func (h *healthHook) begin(alloc *nomad.Allocation) func(context.Context) {
	h.deployment = alloc.DeploymentID
	if _, open := h.open(alloc); !open {
		return nil
	}
	h.following = true
	return func(ctx context.Context) { h.follow(ctx, alloc) }
}

// Update passes the newest version to follow. It begins to follow an allocation that belongs to another deployment.
func (h *healthHook) Update(_ context.Context, req *UpdateRequest, resp *UpdateResponse) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.following {
		if req.Alloc.DeploymentID != h.deployment {
			resp.Background = h.begin(req.Alloc)
		}
		return nil
	}
	h.updates.put(req.Alloc)
	return nil
}

// follow sets the health in one deployment after the other, until no newer one is known.
func (h *healthHook) follow(ctx context.Context, alloc *nomad.Allocation) {
	for alloc != nil {
		next := h.watch(ctx, alloc)
		if next == nil {
			next = h.next(alloc)
		}
		alloc = next
	}
}

// next returns the version of an update that follow has not seen, if it belongs to another deployment. Else follow
// ends, and the next deployment begins it again.
func (h *healthHook) next(alloc *nomad.Allocation) *nomad.Allocation {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case next := <-h.updates:
		if next.DeploymentID != alloc.DeploymentID {
			return next
		}
	default:
	}
	h.deployment, h.following = alloc.DeploymentID, false
	return nil
}

// open returns the limits of an allocation whose health must be set.
func (h *healthHook) open(alloc *nomad.Allocation) (healthLimits, bool) {
	limits, ok := limitsOf(alloc, alloc.Job.TaskGroup(alloc.TaskGroup))
	return limits, ok && (alloc.DeploymentStatus == nil || alloc.DeploymentStatus.Healthy == nil)
}

// watch sets the health in one deployment. It returns early, with the newer allocation, if that
// belongs to another deployment.
func (h *healthHook) watch(ctx context.Context, alloc *nomad.Allocation) *nomad.Allocation {
	group := alloc.Job.TaskGroup(alloc.TaskGroup)
	limits, open := h.open(alloc)
	if !open {
		return nil
	}
	deadline := time.NewTimer(limits.deadline)
	defer deadline.Stop()
	checks := h.checksOf(alloc.ID, limits)
	for {
		wait := limits.deadline
		states := h.tasks.States()
		checked, fine := checks.failingSince(states)
		since, verdict := judge(group, states)
		switch verdict {
		case down:
			h.setHealth(alloc, false, "a task is down")
			return nil
		case up:
			if !fine {
				break
			}
			rest := limits.minimum - time.Since(latest(since, checked))
			if rest <= 0 {
				h.setHealth(alloc, true, "all tasks are up")
				return nil
			}
			wait = rest
		}
		select {
		case <-ctx.Done():
			return nil
		case <-h.tasks.Changed():
		case <-time.After(checks.limit(wait)):
		case <-deadline.C:
			h.explain(group, limits, checks)
			h.setHealth(alloc, false, "the healthy_deadline has passed")
			return nil
		case next := <-h.updates:
			if next.DeploymentID != alloc.DeploymentID {
				return next
			}
		}
	}
}

func (h *healthHook) setHealth(alloc *nomad.Allocation, healthy bool, why string) {
	h.log.Debug("set allocation health", "alloc", alloc.ID, "healthy", healthy, "why", why)
	h.tasks.SetHealth(alloc.DeploymentID, healthy)
}

// healthLimits determine the health of an allocation: the times, and whether checks matter.
type healthLimits struct {
	minimum, deadline time.Duration
	checks            bool
}

// limitsOf returns the limits for the allocation. ok is false if the client must not determine its health.
func limitsOf(a *nomad.Allocation, group *nomad.TaskGroup) (l healthLimits, ok bool) {
	switch {
	case group == nil:
		return healthLimits{}, false
	case a.DeploymentID != "" && group.Update != nil:
		u := group.Update
		return healthLimits{u.MinHealthyTime, u.HealthyDeadline,
			u.HealthCheck != nomad.UpdateStrategyHealthCheck_TaskStates}, u.HealthCheck != nomad.UpdateStrategyHealthCheck_Manual
	case a.DeploymentID == "" && group.Migrate != nil && a.Job.Type == nomad.JobTypeService:
		m := group.Migrate
		return healthLimits{m.MinHealthyTime, m.HealthyDeadline, m.HealthCheck != nomad.MigrateStrategyHealthStates}, true
	}
	return healthLimits{}, false
}

// verdict is the result of judge.
type verdict int

const (
	waiting verdict = 0
	up      verdict = 1
	down    verdict = 2
)

// judge evaluates the tasks. since is the time since which all have been up.
func judge(group *nomad.TaskGroup, states map[string]*nomad.TaskState) (since time.Time, v verdict) {
	v = up
	for _, task := range group.Tasks {
		s := states[task.Name]
		if s == nil {
			return since, waiting
		}
		switch one, at := judgeTask(task, s); one {
		case down:
			return at, down
		case waiting:
			v = waiting
		default:
			if at.After(since) {
				since = at
			}
		}
	}
	return since, v
}

// judgeTask evaluates one task. Main tasks and sidecars must run, other tasks must exit
// successfully, and poststop tasks are ignored.
func judgeTask(task *nomad.Task, s *nomad.TaskState) (verdict, time.Time) {
	short := task.Lifecycle != nil && !task.Lifecycle.Sidecar
	switch {
	case task.Lifecycle != nil && task.Lifecycle.Hook == nomad.TaskLifecycleHookPoststop:
		return up, time.Time{}
	case s.State == nomad.TaskStateDead && s.Failed:
		return down, s.FinishedAt
	case paused(s):
		return up, time.Time{} // as intended: a deployment does not wait for the start of its schedule
	case s.State == nomad.TaskStateDead && short:
		return up, s.FinishedAt
	case s.State == nomad.TaskStateDead:
		return down, s.FinishedAt
	case s.State == nomad.TaskStateRunning && !short:
		return up, s.StartedAt
	}
	return waiting, time.Time{}
}
