package taskrunner

import (
	"context"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskenv"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// runPrestart lets every hook prepare the start.
func (r *Runner) runPrestart(ctx context.Context) error {
	return hook.Each(r.hooks, "prestart", func(h taskhook.TaskPrestartHook) error {
		before := r.local.Hooks[h.Name()]
		if before == nil {
			before = &state.HookState{}
		}
		if before.PrestartDone {
			r.env.SetHook(h.Name(), before.Env)
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
			Owner:      r.try.owner, Dir: r.dir, Env: r.env.Build(),
			Running: r.taskID() != "",
		}
		resp := &taskhook.TaskPrestartResponse{}
		err := h.Prestart(ctx, req, resp)
		r.take(h.Name(), resp)
		return err
	})
}

// take applies what a hook added to the start.
func (r *Runner) take(hook string, resp *taskhook.TaskPrestartResponse) {
	if resp.Dir != nil {
		if r.dir != nil {
			r.dir.Close()
		}
		r.dir = resp.Dir
	}
	if resp.Paths != nil {
		r.env.SetPaths(*resp.Paths)
	}
	if resp.Owner != nil {
		r.try.owner = *resp.Owner
	}
	if resp.Log != nil {
		r.try.log = *resp.Log
	}
	if resp.Env != nil {
		r.env.SetHook(hook, resp.Env)
	}
	if resp.HostEnv != nil {
		r.env.SetHost(hook, resp.HostEnv)
	}
	r.try.mounts = append(r.try.mounts, resp.Mounts...)
	r.try.files = append(r.try.files, resp.Files...)
	if resp.State != nil || resp.Done {
		kept := &state.HookState{PrestartDone: resp.Done, Data: resp.State}
		if resp.Done {
			kept.Env = resp.Env // it will not be asked again
		}
		r.local.Hooks[hook] = kept
	}
	r.try.run(resp.Background)
}

func (r *Runner) runPoststart(ctx context.Context, env *taskenv.Env, started time.Time) {
	_, task := r.current()
	id := r.taskID()
	req := &taskhook.TaskPoststartRequest{
		Env: env, Task: task, Started: started, Exec: r.execer(),
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

func (r *Runner) preKill(ctx context.Context, e *nomad.TaskEvent) {
	hook.All(r.hooks, "pre_kill", func(h taskhook.TaskPreKillHook) error {
		return h.PreKill(ctx, &taskhook.TaskPreKillRequest{Event: e}, &taskhook.TaskPreKillResponse{})
	})
}

func (r *Runner) runExited() {
	// Its own context: the hooks learn of the exit also when the task was killed.
	ctx := context.Background()
	hook.All(r.hooks, "exited", func(h taskhook.TaskExitedHook) error {
		return h.Exited(ctx, &taskhook.TaskExitedRequest{Exit: r.last.exit}, &taskhook.TaskExitedResponse{})
	})
}

func (r *Runner) runUpdate(ctx context.Context, req *taskhook.TaskUpdateRequest) {
	hook.All(r.hooks, "update", func(h taskhook.TaskUpdateHook) error {
		return h.Update(ctx, req, &taskhook.TaskUpdateResponse{})
	})
}

func (r *Runner) runStop(ctx context.Context) {
	hook.All(r.hooks, "stop", func(h taskhook.TaskStopHook) error {
		req := &taskhook.TaskStopRequest{Dir: r.dir}
		if kept := r.local.Hooks[h.Name()]; kept != nil {
			req.State = kept.Data
		}
		return h.Stop(ctx, req, &taskhook.TaskStopResponse{})
	})
}

// count adds to a counter of the task's allocation.
func count(r *Runner, name string, happened bool) {
	if !happened {
		return
	}
	metrics.IncrCounterWithLabels([]string{"client", "allocs", name}, 1, []metrics.Label{
		{Name: "job", Value: r.cfg.Alloc.JobID}, {Name: "task_group", Value: r.cfg.Alloc.TaskGroup},
		{Name: "alloc_id", Value: r.cfg.Alloc.ID}, {Name: "task", Value: r.name},
		{Name: "namespace", Value: r.cfg.Alloc.Namespace},
	})
}
