package taskrunner

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// ErrNoTemplates means that a task has no templates.
var ErrNoTemplates = errors.New("the task has no templates")

// NotApplicable reports whether an error means that an operation does not apply to a task: it is not
// running, or has no sandbox or templates.
func NotApplicable(err error) bool {
	return errors.Is(err, ErrNotRunning) || errors.Is(err, ErrNoSandbox) || errors.Is(err, ErrNoTemplates)
}

// RenderTemplates renders the templates of the running task again and applies their change modes.
func (r *Runner) RenderTemplates(ctx context.Context) ([]*message.TemplateRender, error) {
	return r.render(ctx, false)
}

// DiffTemplates renders the templates of the running task without writing them.
func (r *Runner) DiffTemplates(ctx context.Context) ([]*message.TemplateRender, error) {
	return r.render(ctx, true)
}

func (r *Runner) render(ctx context.Context, dryRun bool) ([]*message.TemplateRender, error) {
	if _, task := r.current(); len(task.Templates) == 0 {
		return nil, fmt.Errorf("render templates of task %s: %w", r.name, ErrNoTemplates)
	}
	if r.taskID() == "" {
		return nil, fmt.Errorf("render templates of task %s: %w", r.name, ErrNotRunning)
	}
	var out []*message.TemplateRender
	for _, hook := range r.hooks.Hooks {
		h, ok := hook.(taskhook.TaskRenderHook)
		if !ok {
			continue
		}
		list, err := h.Render(ctx, dryRun)
		if err != nil {
			return nil, fmt.Errorf("render templates of task %s: %w", r.name, err)
		}
		out = append(out, list...)
	}
	return out, nil
}
