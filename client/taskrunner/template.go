package taskrunner

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/client/template"
)

// RenderTemplates renders all templates of the running task again. Changed files cause their change
// mode.
func (r *Runner) RenderTemplates(ctx context.Context) ([]template.Diff, error) {
	return r.render(func(h taskhook.Renderer) ([]template.Diff, error) { return h.RenderAgain(ctx) })
}

// CompareTemplates renders all templates of the running task and returns the differences from the
// files, which stay.
func (r *Runner) CompareTemplates(ctx context.Context) ([]template.Diff, error) {
	return r.render(func(h taskhook.Renderer) ([]template.Diff, error) { return h.CompareRender(ctx) })
}

func (r *Runner) render(do func(taskhook.Renderer) ([]template.Diff, error)) ([]template.Diff, error) {
	if r.taskID() == "" {
		return nil, fmt.Errorf("render templates of task %s: %w", r.name, ErrNotRunning)
	}
	var all []template.Diff
	for _, h := range r.hooks.Hooks {
		if h, ok := h.(taskhook.Renderer); ok {
			diffs, err := do(h)
			if err != nil {
				return nil, fmt.Errorf("task %s: %w", r.name, err)
			}
			all = append(all, diffs...)
		}
	}
	return all, nil
}
