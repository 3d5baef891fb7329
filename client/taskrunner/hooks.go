package taskrunner

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// runPrestart runs the prestart hooks until one fails.
func (r *Runner) runPrestart(ctx context.Context) error {
	return hook.Each(r.hooks, "prestart", func(h taskhook.TaskPrestartHook) error { return r.prestart(ctx, h) })
}

// attachHooks runs the prestart hooks for a recovered process. A failed hook neither ends the
// process nor stops the other hooks.
func (r *Runner) attachHooks(ctx context.Context) {
	hook.All(r.hooks, "prestart", func(h taskhook.TaskPrestartHook) error {
		err := r.prestart(ctx, h)
		if err != nil && ctx.Err() == nil {
			r.Emit(&nomad.TaskEvent{Type: nomad.TaskHookMessage, Message: fmt.Sprintf("hook %s: %v", h.Name(), err)})
		}
		return err
	})
	if err := r.record.storeLocalLater(); err != nil {
		r.log.Warn("store state of hooks", "err", err)
	}
}

// prestart runs one hook, unless it is done permanently.
func (r *Runner) prestart(ctx context.Context, h taskhook.TaskPrestartHook) error {
	before := r.record.local.Hooks[h.Name()]
	if before == nil {
		before = &state.HookState{}
	}
	if before.PrestartDone {
		r.env.SetHook(h.Name(), before.Env)
		r.try.takeStored(before)
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	alloc, task := r.current()
	req := &taskhook.TaskPrestartRequest{
		PreviousState: before.Data, Alloc: alloc, Task: task,
		Resources:  allocated(alloc, task.Name),
		NomadToken: r.cfg.Identities.Default(task.Name),
		Owner:      r.try.owner, Dir: r.try.dir, Env: r.env.Build(),
		Confine: r.try.confinement, Network: r.cfg.Network, Hostname: r.cfg.Hostname,
		Running: r.taskID() != "",
	}
	resp := &taskhook.TaskPrestartResponse{}
	err := h.Prestart(ctx, req, resp)
	r.take(h.Name(), resp)
	return err
}

// take applies the response of a hook.
func (r *Runner) take(hook string, resp *taskhook.TaskPrestartResponse) {
	if resp.Paths != nil {
		r.env.SetPaths(*resp.Paths)
	}
	if resp.ArtifactDigests != nil {
		r.record.update(func(s *nomad.TaskState) { s.ArtifactDigests = resp.ArtifactDigests }, nil)
	}
	if resp.Below {
		r.env.SetBelow(hook)
	}
	if resp.Env != nil {
		r.env.SetHook(hook, resp.Env)
	}
	if resp.HostEnv != nil {
		r.env.SetHost(hook, resp.HostEnv)
	}
	r.try.take(resp)
	if resp.State != nil || resp.Done {
		kept := &state.HookState{PrestartDone: resp.Done, Data: resp.State}
		if resp.Done {
			// The hook does not run again.
			kept.Env, kept.Mounts, kept.Devices, kept.Files = resp.Env, resp.Mounts, resp.Devices, resp.Files
		}
		r.record.local.Hooks[hook] = kept
	}
	r.try.run(resp.Background)
}

func (r *Runner) runPoststart(ctx context.Context, env *taskenv.Env, started time.Time) {
	_, task := r.current()
	id := r.taskID()
	req := &taskhook.TaskPoststartRequest{
		Env: env, Task: task, Started: started, Exec: r.execer(), Network: r.record.local.DriverNetwork, Meter: r.meter(id),
		Stats: func(ctx context.Context, every time.Duration) (<-chan *drivers.ResourceUsage, error) {
			return r.cfg.Driver.TaskStats(ctx, id, every)
		},
	}
	hook.All(r.hooks, "poststart", func(h taskhook.TaskPoststartHook) error {
		resp := &taskhook.TaskPoststartResponse{}
		err := h.Poststart(ctx, req, resp)
		r.try.run(resp.Background)
		return err
	})
}

// meter returns the meter of a task, nil if the driver has none.
func (r *Runner) meter(id string) taskhook.Meter {
	driver, ok := r.cfg.Driver.(drivers.Meterer)
	if !ok {
		return nil
	}
	return func() (func() *drivers.ResourceUsage, error) { return driver.Meter(id) }
}

func (r *Runner) preKill(ctx context.Context, req *taskhook.TaskPreKillRequest) {
	hook.All(r.hooks, "pre_kill", func(h taskhook.TaskPreKillHook) error {
		return h.PreKill(ctx, req, &taskhook.TaskPreKillResponse{})
	})
}

// runExited runs the exited hooks. If the task was killed, their context is already cancelled.
func (r *Runner) runExited(ctx context.Context) {
	ctx, cancel := r.requests.untilKilled(ctx)
	defer cancel()
	hook.All(r.hooks, "exited", func(h taskhook.TaskExitedHook) error {
		return h.Exited(ctx, &taskhook.TaskExitedRequest{Exit: r.last.exit}, &taskhook.TaskExitedResponse{})
	})
}

// RunUpdateHooks runs the update hooks with the current allocation. It returns when they do, or
// soon after a kill.
func (r *Runner) RunUpdateHooks(ctx context.Context) {
	ctx, cancel := r.requests.untilKilled(ctx)
	defer cancel()
	alloc, task := r.current()
	req := &taskhook.TaskUpdateRequest{Alloc: alloc, Task: task, Env: r.env.Build()}
	hook.All(r.hooks, "update", func(h taskhook.TaskUpdateHook) error {
		return h.Update(ctx, req, &taskhook.TaskUpdateResponse{})
	})
}

// envChanged passes the current environment to the hooks that use it while the process runs.
func (r *Runner) envChanged() {
	env := r.env.Build()
	for _, hook := range r.hooks.Hooks {
		if h, ok := hook.(taskhook.TaskEnvHook); ok {
			h.EnvChanged(env)
		}
	}
}

func (r *Runner) runStop(ctx context.Context) {
	hook.All(r.hooks, "stop", func(h taskhook.TaskStopHook) error {
		req := &taskhook.TaskStopRequest{Dir: r.dir()}
		if kept := r.record.local.Hooks[h.Name()]; kept != nil {
			req.State = kept.Data
		}
		return h.Stop(ctx, req, &taskhook.TaskStopResponse{})
	})
}

// count increments a counter of the task's allocation if happened is true.
func count(r *Runner, name string, happened bool) {
	if !happened {
		return
	}
	metrics.IncrCounterWithLabels([]string{"client", "allocs", name}, 1, r.labels)
}
