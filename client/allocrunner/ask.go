package allocrunner

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Sandboxes compares the sandbox of one task with its declared policy or, if task is empty,
// those of all running tasks that have a sandbox.
func (r *Runner) Sandboxes(ctx context.Context, task string) (map[string]*message.TaskSandbox, error) {
	return ask(r, task, func(t *taskrunner.Runner) (*message.TaskSandbox, error) { return t.Sandbox(ctx) })
}

// RenderTemplates renders the templates of one task again or, if task is empty, those of all
// running tasks with templates.
func (r *Runner) RenderTemplates(ctx context.Context, task string) (map[string][]*message.TemplateRender, error) {
	return ask(r, task, func(t *taskrunner.Runner) ([]*message.TemplateRender, error) { return t.RenderTemplates(ctx) })
}

// DiffTemplates is RenderTemplates without writing the templates.
func (r *Runner) DiffTemplates(ctx context.Context, task string) (map[string][]*message.TemplateRender, error) {
	return ask(r, task, func(t *taskrunner.Runner) ([]*message.TemplateRender, error) { return t.DiffTemplates(ctx) })
}

// VaultTokens describes the tokens of the tasks in Vault.
func (r *Runner) VaultTokens() []*message.VaultTokenStatus { return r.vault.Status() }

// Tasks returns the running tasks by name.
func (r *Runner) Tasks() map[string]*taskrunner.Runner { return r.running() }

// ask calls f for one task or, if name is empty, for all running tasks. In the second case it
// skips tasks to which f does not apply, and returns the error of one of them if all are skipped.
func ask[T any](r *Runner, name string, f func(*taskrunner.Runner) (T, error)) (map[string]T, error) {
	out := map[string]T{}
	if name != "" {
		t, err := r.task(name)
		if err != nil {
			return nil, err
		}
		out[name], err = f(t)
		return out, err
	}
	last := fmt.Errorf("allocation %s: %w", r.cfg.Alloc.ID, taskrunner.ErrNotRunning)
	for name, t := range r.running() {
		result, err := f(t)
		switch {
		case taskrunner.NotApplicable(err):
			last = err // others may have one
		case err != nil:
			return nil, err
		default:
			out[name] = result
		}
	}
	if len(out) == 0 {
		return nil, last
	}
	return out, nil
}
