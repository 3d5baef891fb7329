package allocrunner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// ErrNoTask means that the allocation has no task of that name.
var ErrNoTask = errors.New("no such task")

// Update applies a new version of the allocation. A terminal desired status stops it; a new
// version of the job updates its tasks in place. Update does not wait for hooks.
func (r *Runner) Update(alloc *nomad.Allocation) {
	r.mu.Lock()
	old := r.alloc
	if alloc.Job == nil { // unchanged, so not sent again
		same := *alloc
		same.Job = old.Job
		alloc = &same
	}
	r.alloc = alloc
	if alloc.DeploymentID != old.DeploymentID {
		r.deploy, r.deployNew = alloc.DeploymentStatus, true // the health in the last deployment does not apply to this one
	}
	tasks := r.tasks
	returned := alloc.ClientStatus == nomad.AllocClientStatusUnknown && old.ClientStatus != nomad.AllocClientStatusUnknown
	r.mu.Unlock()
	r.updateTasks(alloc, tasks)
	if returned {
		for _, t := range tasks {
			t.Emit(&nomad.TaskEvent{Type: nomad.TaskClientReconnected})
		}
	}
	r.updates.Send() // if an earlier update is pending, its hooks get this one
	if alloc.ServerTerminalStatus() {
		r.requestStop()
	}
	if skip := alloc.DesiredTransition.NoShutdownDelay; skip != nil && *skip {
		r.skipDelay()
	}
	r.nudge()
}

// updateTasks passes the allocation to its tasks.
func (r *Runner) updateTasks(alloc *nomad.Allocation, tasks map[string]*taskrunner.Runner) {
	group := alloc.Job.TaskGroup(alloc.TaskGroup)
	if group == nil {
		return
	}
	for name, t := range tasks {
		if task := group.Task(name); task != nil {
			t.Update(alloc, task)
		}
	}
}

// runUpdates runs the update hooks of the allocation and its tasks with the newest version. It passes the Background
// functions of the hooks to start.
func (r *Runner) runUpdates(ctx context.Context, start func(func(context.Context))) {
	r.mu.Lock()
	alloc, tasks := r.alloc, r.tasks
	r.mu.Unlock()
	hook.All(r.hooks, "update", func(h allochook.UpdateHook) error {
		resp := &allochook.UpdateResponse{}
		err := h.Update(ctx, &allochook.UpdateRequest{Alloc: alloc}, resp)
		if resp.Background != nil {
			start(resp.Background)
		}
		return err
	})
	r.updateTasks(alloc, tasks) // a task runner may have been created during the update
	var work sync.WaitGroup
	for _, t := range tasks {
		work.Go(func() { t.RunUpdateHooks(ctx) })
	}
	work.Wait()
}

// Stop stops every task, poststop tasks last, and waits until all are dead or ctx ends. Run
// must be running.
func (r *Runner) Stop(ctx context.Context) error {
	r.requestStop()
	select {
	case <-r.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop allocation %s: %w", r.cfg.Alloc.ID, ctx.Err())
	}
}

// Destroy stops the allocation and removes its directory, uids and stored state from the node.
// Run must be running or have returned nil.
func (r *Runner) Destroy(ctx context.Context) error {
	if err := r.Stop(ctx); err != nil {
		return err
	}
	var errs []error
	for _, hook := range r.hooks.Hooks {
		if h, ok := hook.(allochook.DestroyHook); ok {
			errs = append(errs, h.Destroy(ctx))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("destroy allocation %s: %w", r.cfg.Alloc.ID, err)
	}
	r.cfg.Users.Release(r.cfg.Alloc.ID)
	return r.cfg.Store.DeleteAlloc(r.cfg.Alloc.ID)
}

// Signal sends a signal by name to one task or, if task is empty, to all running ones. An
// unknown signal is refused before anything is sent.
func (r *Runner) Signal(task, signal string) error {
	if _, err := drivers.ParseSignal(signal); err != nil {
		return apierror.Errorf(400, "%v", err)
	}
	live := r.running()
	if task != "" {
		t, err := r.task(task)
		if err != nil {
			return err
		}
		live = map[string]*taskrunner.Runner{task: t}
	}
	if len(live) == 0 {
		return fmt.Errorf("signal allocation %s: %w", r.cfg.Alloc.ID, taskrunner.ErrNotRunning)
	}
	var errs []error
	for _, t := range live {
		errs = append(errs, t.Signal(&nomad.TaskEvent{
			Type: nomad.TaskSignaling, TaskSignal: signal,
		}, signal))
	}
	return errors.Join(errs...)
}

// Exec runs a program in a running task until the program or the task exits or ctx ends.
func (r *Runner) Exec(ctx context.Context, task string, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
	t, err := r.task(task)
	if err != nil {
		return nil, err
	}
	return t.Exec(ctx, o)
}

// Stats returns the resource usage of one task or, if task is empty, of all.
func (r *Runner) Stats(task string) (*message.AllocResourceUsage, error) {
	live := r.running()
	if task != "" {
		if _, err := r.task(task); err != nil {
			return nil, err
		}
	}
	sum := &message.AllocResourceUsage{
		ResourceUsage: &message.ResourceUsage{MemoryStats: &message.MemoryStats{}, CpuStats: &message.CpuStats{}},
		Tasks:         map[string]*message.TaskResourceUsage{},
		Timestamp:     time.Now().UnixNano(),
	}
	for name, t := range live {
		usage := t.Usage()
		if usage == nil || task != "" && name != task {
			continue
		}
		sum.Tasks[name] = usage
		addUsage(sum.ResourceUsage, usage.ResourceUsage)
		sum.Timestamp = usage.Timestamp
	}
	return sum, nil
}

// addUsage adds one task's usage to the allocation's.
func addUsage(sum, u *message.ResourceUsage) {
	m, c := u.MemoryStats, u.CpuStats
	sum.MemoryStats.RSS += m.RSS
	sum.MemoryStats.Cache += m.Cache
	sum.MemoryStats.Swap += m.Swap
	sum.MemoryStats.Usage += m.Usage
	sum.MemoryStats.MaxUsage += m.MaxUsage
	sum.MemoryStats.Measured = m.Measured
	sum.CpuStats.SystemMode += c.SystemMode
	sum.CpuStats.UserMode += c.UserMode
	sum.CpuStats.TotalTicks += c.TotalTicks
	sum.CpuStats.Percent += c.Percent
	sum.CpuStats.ThrottledPeriods += c.ThrottledPeriods
	sum.CpuStats.ThrottledTime += c.ThrottledTime
	sum.CpuStats.Measured = c.Measured
	sum.DeviceStats = append(sum.DeviceStats, u.DeviceStats...)
}
