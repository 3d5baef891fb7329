package allocrunner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/client/driverset"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// runners creates the runner of each task.
func (r *Runner) runners(got prepared) (map[string]*taskrunner.Runner, error) {
	tasks := map[string]*taskrunner.Runner{}
	events, _ := r.cfg.Drivers.(taskrunner.Events)
	alloc := r.Alloc()
	group := alloc.Job.TaskGroup(alloc.TaskGroup)
	for _, first := range r.group.Tasks {
		task := first
		if group != nil && group.Task(first.Name) != nil {
			task = group.Task(first.Name) // updated before the tasks started
		}
		driver, err := r.cfg.Drivers.Driver(task.Driver)
		if err != nil {
			return nil, fmt.Errorf("task %q: %w", task.Name, err)
		}
		tasks[task.Name] = taskrunner.New(taskrunner.Config{
			Alloc: alloc, Task: task, Node: r.cfg.Node, Region: r.cfg.Region, Driver: driver, Events: events,
			Store: r.cfg.Store, Dir: got.dir, NetNS: got.netNS, NetLabels: got.netLabels, Network: got.network, Hostname: got.hostname,
			Gate: r.gates[task.Name], Identities: r.ids, Tokens: r.tokens, VaultTokens: r.vault,
			Hooks: r.cfg.TaskHooks, Changed: r.nudge,
			MaxKillTimeout: r.cfg.MaxKillTimeout, MHzPerCore: r.cfg.MHzPerCore, Log: r.cfg.Log,
		})
	}
	return tasks, nil
}

// claimUsers reserves the uids of the restored tasks, which own files in the allocation's
// directory.
func (r *Runner) claimUsers(stored map[string]state.Task) error {
	for name, t := range stored {
		if t.Local == nil {
			continue
		}
		for _, hook := range t.Local.Hooks {
			uid, ok := taskhook.AssignedUID(hook.Data)
			if !ok {
				continue
			}
			if err := r.cfg.Users.Claim(uid, r.cfg.Alloc.ID); err != nil {
				return fmt.Errorf("restore task %s of allocation %s: %w", name, r.cfg.Alloc.ID, err)
			}
		}
	}
	return nil
}

// Delays between attempts to end a process.
const (
	destroyAgain    = 250 * time.Millisecond
	destroyAgainMax = 30 * time.Second
)

// endProcess ends the process of a task by its stored handle. It retries until the driver has
// ended the process or reports that the task does not exist.
func (r *Runner) endProcess(ctx context.Context, task *nomad.Task) error {
	r.mu.Lock()
	stored := r.stored[task.Name]
	r.mu.Unlock()
	if stored.Local == nil || stored.Local.TaskHandle == nil {
		return nil
	}
	for wait := destroyAgain; ; wait = min(2*wait, destroyAgainMax) {
		err := r.destroyTask(ctx, task.Driver, stored.Local.TaskHandle)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.log.Error("end process of a task that cannot run", "task", task.Name, "err", err)
		if errors.Is(err, driverset.ErrUnknown) {
			return nil // the client no longer has the driver
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (r *Runner) destroyTask(ctx context.Context, driver string, h *drivers.TaskHandle) error {
	d, err := r.cfg.Drivers.Driver(driver)
	if err != nil {
		return err
	}
	// Whatever the result, the driver may have the task.
	_ = d.RecoverTask(ctx, h)
	if err := d.DestroyTask(h.TaskID, true); !errors.Is(err, drivers.ErrTaskNotFound) {
		return err
	}
	return nil
}

// task returns the runner of a task, or an error if the task has none.
func (r *Runner) task(name string) (*taskrunner.Runner, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.group.Task(name) == nil {
		return nil, fmt.Errorf("allocation %s has no task %q: %w", r.alloc.ID, name, ErrNoTask)
	}
	if r.tasks[name] == nil {
		return nil, fmt.Errorf("task %q of allocation %s: %w", name, r.alloc.ID, taskrunner.ErrNotRunning)
	}
	return r.tasks[name], nil
}

// running returns the runners of the running tasks.
func (r *Runner) running() map[string]*taskrunner.Runner {
	r.mu.Lock()
	defer r.mu.Unlock()
	live := map[string]*taskrunner.Runner{}
	for name, t := range r.tasks {
		if t.State().State == nomad.TaskStateRunning {
			live[name] = t
		}
	}
	return live
}
