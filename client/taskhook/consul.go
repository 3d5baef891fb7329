package taskhook

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/consul"
	"github.com/open-nomad/open-nomad/client/consul/token"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
)

// ConsulTokens holds the tokens of Consul of the allocation (token.Manager).
type ConsulTokens interface {
	// Enabled reports whether the node has Consul.
	Enabled() bool
	consul.Tokens
	Watch(identity, workload string) (<-chan login.Secret, func())
}

// consulHook writes a token of Consul into a file of the secrets directory. A start waits for the token until the task is
// killed. While the task runs, each newer token replaces the file. The environment has it from the next start on.
type consulHook struct {
	tokens  ConsulTokens
	control Control
	log     *slog.Logger

	name string
	file string
	mode fs.FileMode
	env  []string // variables with the token
	// of returns the identity and the workload of the token, "" for a task without one.
	of func(req *TaskPrestartRequest) (identity, workload string)
}

// newConsulTaskHook returns the hook for the token of a task's own identity.
func newConsulTaskHook(c Config) hook.Hook {
	return &consulHook{tokens: c.Tokens, control: c.Control, log: c.Log,
		name: "consul_task", file: "consul_token", mode: 0o640, env: []string{"CONSUL_TOKEN", "CONSUL_HTTP_TOKEN"}, of: ownToken}
}

// newConsulServiceHook returns the hook for the token of the service whose proxy or gateway the task is.
func newConsulServiceHook(c Config) hook.Hook {
	return &consulHook{tokens: c.Tokens, control: c.Control, log: c.Log,
		name: "consul_si_token", file: "si_token", mode: 0o440, of: serviceToken}
}

func (h *consulHook) Name() string { return h.name }

// ownToken returns the token of the task's identity.
func ownToken(req *TaskPrestartRequest) (identity, workload string) {
	if logsIn(req.Task) {
		return token.TaskIdentity, req.Task.Name
	}
	return "", ""
}

// logsIn reports whether a task has an identity for Consul.
func logsIn(t *nomad.Task) bool {
	return slices.ContainsFunc(t.Identities, func(i *nomad.WorkloadIdentity) bool { return i.Name == token.TaskIdentity })
}

// serviceToken returns the token of the service that the kind of the task names, such as connect-proxy:web.
func serviceToken(req *TaskPrestartRequest) (identity, workload string) {
	role, service := connect.ParseKind(string(req.Task.Kind))
	group := req.Alloc.Job.TaskGroup(req.Alloc.TaskGroup)
	if role == "" || group == nil {
		return "", ""
	}
	for _, s := range group.Services {
		if s.Name == service && s.Identity != nil {
			return s.Identity.Name, ""
		}
	}
	return "", ""
}

func (h *consulHook) Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	identity, workload := h.of(req)
	if identity == "" {
		return nil
	}
	if h.tokens == nil || !h.tokens.Enabled() {
		return &Fault{Type: nomad.TaskSetupFailure, Err: fmt.Errorf(
			"the task has an identity %q, and this client has no consul block: add the block, or constrain the job to nodes with "+
				"attribute consul.version", identity)}
	}
	if req.Dir == nil {
		return errNoDir
	}
	tokens, stop := h.tokens.Watch(identity, workload)
	first, err := h.first(ctx, tokens, req.Running)
	if err == nil && !first.IsZero() {
		err = h.put(req.Dir, first)
	}
	if err != nil {
		stop()
		return err
	}
	resp.Env = h.environment(first)
	dir := req.Dir
	resp.Background = func(ctx context.Context) {
		defer stop()
		h.follow(ctx, dir, tokens)
	}
	return nil
}

// first returns the token of a start. For a running task it does not wait.
func (h *consulHook) first(ctx context.Context, tokens <-chan login.Secret, running bool) (login.Secret, error) {
	if running {
		select {
		case s := <-tokens:
			return s, nil
		default:
			return login.Secret{}, nil
		}
	}
	select {
	case s := <-tokens:
		return s, nil
	case <-ctx.Done():
		return login.Secret{}, ctx.Err()
	}
}

// follow writes each newer token.
func (h *consulHook) follow(ctx context.Context, dir *allocdir.Task, tokens <-chan login.Secret) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-tokens:
			if err := h.put(dir, s); err != nil {
				h.log.Warn("write the renewed token of Consul", "file", h.file, "err", err)
			}
			if env := h.environment(s); env != nil {
				h.control.SetEnv(h.name, env)
			}
		}
	}
}

// put replaces the file. Only the task's user and group can read it.
func (h *consulHook) put(dir *allocdir.Task, s login.Secret) error {
	attributes := dir.Secret()
	attributes.Mode = h.mode
	if err := dir.Secrets().Replace(h.file, []byte(s.Reveal()), attributes); err != nil {
		return setupFault(fmt.Errorf("write the token of Consul: %w", err))
	}
	return nil
}

// environment returns the variables with a token, nil for none.
func (h *consulHook) environment(s login.Secret) map[string]string {
	if s.IsZero() || len(h.env) == 0 {
		return nil
	}
	env := map[string]string{}
	for _, name := range h.env {
		env[name] = s.Reveal()
	}
	return env
}
