package taskhook

import (
	"context"
	"fmt"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/template"
	"github.com/open-nomad/open-nomad/nomad"
)

// templateHook renders the templates of a task before each start, and again while it runs.
type templateHook struct {
	templates *template.Templates
	policy    *nomad.RestartPolicy // of the task or its group, may be nil
}

func newTemplateHook(c Config) hook.Hook {
	h := &templateHook{policy: c.Task.RestartPolicy}
	region := ""
	if job := c.Alloc.Job; job != nil {
		region = job.Region
		if tg := job.TaskGroup(c.Alloc.TaskGroup); h.policy == nil && tg != nil {
			h.policy = tg.RestartPolicy
		}
	}
	h.templates = template.New(template.Deps{
		Config: c.Templates, Task: c.Control, NotRunning: ErrNotRunning, Shared: c.Dir.Shared,
		Namespace: c.Alloc.Namespace, Region: region, Labels: c.Metrics.Labels(c.Alloc, c.Task), Log: c.Log,
	})
	return h
}

// Name is the key under which the package template sets the environment.
func (*templateHook) Name() string { return template.Hook }

func (h *templateHook) Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if len(req.Task.Templates) == 0 {
		return nil
	}
	if req.Dir == nil {
		return errNoDir
	}
	begun, err := h.templates.Begin(ctx, template.Start{
		Templates: req.Task.Templates, Env: req.Env, Dir: req.Dir, UID: req.Owner.UID, GID: req.Owner.GID,
		Token: req.NomadToken, Running: req.Running, State: req.PreviousState,
		All: h.policy != nil && h.policy.RenderTemplates,
		Confine: func() (*template.Confinement, error) {
			c, err := req.Confine()
			if err != nil {
				return nil, err
			}
			return &template.Confinement{Run: c.Run, By: c.By}, nil
		},
	})
	if err != nil {
		return err
	}
	resp.Env, resp.State, resp.Background = begun.Env, begun.State, begun.Background
	return nil
}

func (h *templateHook) Poststart(_ context.Context, req *TaskPoststartRequest, resp *TaskPoststartResponse) error {
	resp.Background = h.templates.Started(template.Exec(req.Exec))
	return nil
}

func (h *templateHook) Update(_ context.Context, req *TaskUpdateRequest, _ *TaskUpdateResponse) error {
	token := nomad.NewToken(req.Alloc.SignedIdentities[req.Task.Name], req.Alloc.SigningKeyID)
	h.templates.Update(req.Task.Templates, token)
	return nil
}

// Render implements TaskRenderHook.
func (h *templateHook) Render(ctx context.Context, dryRun bool) ([]*nomad.TemplateRender, error) {
	render := h.templates.RenderAgain
	if dryRun {
		render = h.templates.CompareRender
	}
	diffs, err := render(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*nomad.TemplateRender, len(diffs))
	for i, d := range diffs {
		out[i] = &nomad.TemplateRender{Destination: d.Destination, Changed: d.Changed}
		if dryRun && d.Changed {
			out[i].Diff = difference(d)
		}
	}
	return out, nil
}

// difference returns the unified difference between a file and its new content.
func difference(d template.Diff) string {
	text := string(diff.Diff("a/"+d.Destination, d.Old, "b/"+d.Destination, d.New))
	if d.Cut {
		text += fmt.Sprintf("(only the first %d bytes were compared)\n", template.MaxDiff)
	}
	return text
}
