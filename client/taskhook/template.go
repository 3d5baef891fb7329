package taskhook

import (
	"context"
	"errors"
	"fmt"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/open-nomad/open-nomad/client/consul/token"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/template"
	vaulttoken "github.com/open-nomad/open-nomad/client/vault/token"
	"github.com/open-nomad/open-nomad/internal/consul/readproxy"
	vaultreads "github.com/open-nomad/open-nomad/internal/vault/readproxy"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// templateHook renders the templates of the task before it starts, and while it runs. Package
// client/template does the work.
type templateHook struct {
	task  string
	group *nomad.TaskGroup // for its restart policy; may be nil
	all   *template.Templates
}

func newTemplateHook(c Config) hook.Hook {
	h := &templateHook{task: c.Task.Name, all: template.New(template.Deps{
		Config: c.Template, Task: c.Control, NotRunning: ErrNotRunning, Shared: c.Dir.Shared,
		Consul: c.ReadConsul, ConsulToken: consulToken(c), Vault: c.ReadVault, VaultToken: vaultToken(c),
		VaultLogins: vaultLogins(c), Namespace: c.Alloc.Namespace, Labels: c.Metrics.Labels(c.Alloc, c.Task), Log: c.Log,
	})}
	if c.Alloc.Job != nil {
		h.group = c.Alloc.Job.TaskGroup(c.Alloc.TaskGroup)
	}
	return h
}

// consulToken returns the token with which templates read Consul: that of the task's identity, else none. It is the agent's
// own only if the operator has configured that.
func consulToken(c Config) readproxy.Token {
	switch {
	case c.ReadConsul != nil && c.Template.UseClientConsulToken:
		return readproxy.Token{Secret: func() string { return c.ReadConsul.Settings().HTTP.Token }}
	case c.Tokens != nil && c.Tokens.Enabled() && logsIn(c.Task):
		return readproxy.Token{Secret: c.Tokens.Token(token.TaskIdentity, c.Task.Name), Rejected: c.Tokens.Invalidate}
	}
	return readproxy.Token{Secret: func() string { return "" }}
}

// vaultToken returns the token with which templates use Vault: that of the task. Without a vault block there is none.
func vaultToken(c Config) vaultreads.Token {
	if c.Task.Vault == nil || c.VaultTokens == nil || !c.VaultTokens.Enabled() {
		return vaultreads.Token{}
	}
	return vaultreads.Token{Current: c.VaultTokens.Current(c.Task.Name),
		Rejected: func(ctx context.Context, secret string) bool { return c.VaultTokens.Rejected(ctx, c.Task.Name, secret) }}
}

// vaultLogins returns the function that watches the logins of the task, nil if there are none.
func vaultLogins(c Config) func() (<-chan vaulttoken.Token, func()) {
	if vaultToken(c).Current == nil {
		return nil
	}
	return func() (<-chan vaulttoken.Token, func()) { return c.VaultTokens.Watch(c.Task.Name) }
}

func (*templateHook) Name() string { return template.Hook }

func (h *templateHook) Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if len(req.Task.Templates) == 0 {
		return nil
	}
	if req.Dir == nil {
		return errNoDir
	}
	begun, err := h.all.Begin(ctx, template.Start{
		Templates: req.Task.Templates, Env: req.Env, Dir: req.Dir, UID: req.Owner.UID, GID: req.Owner.GID,
		Token: req.NomadToken, State: req.PreviousState, Running: req.Running,
		All: !req.Running && h.renderAll(req.Task),
		Confine: func() (*template.Confinement, error) {
			c, err := req.Confine()
			if err != nil {
				return nil, err
			}
			return &template.Confinement{Run: c.Run, By: c.By, Memory: c.Memory}, nil
		},
	})
	if err != nil {
		return templateFault(err)
	}
	resp.Env, resp.State, resp.Background = begun.Env, begun.State, begun.Background
	return nil
}

// templateFault chooses the event of an error. As in Nomad, the error of a template is a kill.
func templateFault(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if errors.As(err, new(*drivers.RecoverableError)) {
		return &Fault{Type: nomad.TaskSetupFailure, Err: err}
	}
	return &Fault{Type: nomad.TaskKilling, Err: err}
}

// renderAll reports whether the restart policy asks to render all templates again.
func (h *templateHook) renderAll(t *nomad.Task) bool {
	policy := t.RestartPolicy
	if policy == nil && h.group != nil {
		policy = h.group.RestartPolicy
	}
	return policy != nil && policy.RenderTemplates
}

// Poststart permits change modes, and runs the scripts of the first render.
func (h *templateHook) Poststart(_ context.Context, req *TaskPoststartRequest, resp *TaskPoststartResponse) error {
	if len(req.Task.Templates) > 0 {
		resp.Background = h.all.Started(template.Exec(req.Exec))
	}
	return nil
}

// Update renders new texts of the templates.
func (h *templateHook) Update(_ context.Context, req *TaskUpdateRequest, _ *TaskUpdateResponse) error {
	if len(req.Task.Templates) > 0 {
		h.all.Update(req.Task.Templates, idtoken.New(req.Alloc.SignedIdentities[h.task], req.Alloc.SigningKeyID))
	}
	return nil
}

// Render implements TaskRenderHook.
func (h *templateHook) Render(ctx context.Context, dryRun bool) ([]*message.TemplateRender, error) {
	render := h.all.RenderAgain
	if dryRun {
		render = h.all.CompareRender
	}
	diffs, err := render(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*message.TemplateRender, len(diffs))
	for i, d := range diffs {
		out[i] = &message.TemplateRender{Destination: d.Destination, Changed: d.Changed}
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
