package taskhook

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/secret"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad"
)

// secretsPatience is how long a restarted agent waits for the values of a running task, so that its services have them.
const secretsPatience = 5 * time.Second

// secretsHook fetches the values of the task's secret blocks, once in the life of the agent. They are kept in memory only, and
// not refreshed: an update of the blocks replaces the task. A start waits for them until the task is killed.
//
// For a process that an earlier agent has started, the values are needed for its next start. Failures are then repeated in the
// background and never end the process.
type secretsHook struct {
	node    *secret.Node
	ids     Identities
	tokens  VaultTokens
	control Control
	log     *slog.Logger

	fetched bool // written by one start at a time, or by its Background function
}

func newSecretsHook(c Config) hook.Hook {
	return &secretsHook{node: c.Secrets, ids: c.Identities, tokens: c.VaultTokens, control: c.Control, log: c.Log}
}

func (*secretsHook) Name() string { return "secrets" }

func (h *secretsHook) Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if len(req.Task.Secrets) == 0 || h.fetched {
		return nil
	}
	if h.node == nil {
		return errors.New("this client has no providers of secrets")
	}
	task := h.task(req)
	if !req.Running {
		return secretsFault(h.fetch(ctx, task))
	}
	// The Background function runs until the process ends. What it has begun here ends with it.
	run, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.retry(run, task)
	}()
	resp.Background = func(ctx context.Context) {
		defer end()
		select {
		case <-done:
		case <-ctx.Done():
			end()
			<-done
		}
	}
	timer := time.NewTimer(secretsPatience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// fetch fetches the values once.
func (h *secretsHook) fetch(ctx context.Context, t *secret.Task) error {
	values, err := h.node.Fetch(ctx, t)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	}
	h.control.SetSecrets(values)
	h.fetched = true
	return nil
}

// secretsFault chooses the event of an error. As for templates, too many failed reads are a kill.
func secretsFault(err error) error {
	if errors.As(err, new(*secret.Spent)) {
		return &Fault{Type: nomad.TaskKilling, Err: err}
	}
	return err
}

// retry fetches the values of a running task until that succeeds or ctx ends. It adds an event for each new reason.
func (h *secretsHook) retry(ctx context.Context, t *secret.Task) {
	pauses := backoff.Backoff{Min: time.Second, Max: time.Minute}
	reported := "" // during a fetch used by Waits, else here
	report := func(reason string) {
		if reason != reported {
			reported = reason
			h.control.Emit(&nomad.TaskEvent{Type: nomad.TaskHookMessage, Message: sentence(reason) + ". The task runs on, and this is repeated"})
		}
	}
	t.Waits = report
	for {
		err := h.fetch(ctx, t)
		if err == nil || ctx.Err() != nil {
			return
		}
		if spent := (*secret.Spent)(nil); errors.As(err, &spent) {
			err = spent.Err
		}
		report(err.Error())
		if pauses.Wait(ctx) != nil {
			return
		}
	}
}

// sentence returns the text of an error with a capital letter, for an event.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// task returns the task of a start.
func (h *secretsHook) task(req *TaskPrestartRequest) *secret.Task {
	name := req.Task.Name
	out := &secret.Task{Namespace: req.Alloc.Namespace, JobID: req.Alloc.JobID, Secrets: req.Task.Secrets, Env: req.Env, Log: h.log,
		Identity: func() string { return h.ids.Default(name).Reveal() },
		Waits: func(reason string) {
			h.control.Emit(&nomad.TaskEvent{Type: nomad.TaskTemplate, Message: sentence(reason)})
		}}
	if h.tokens != nil && h.tokens.Enabled() && req.Task.Vault != nil {
		out.Token = secret.Token{Current: h.tokens.Current(name),
			Rejected: func(ctx context.Context, s string) bool { return h.tokens.Rejected(ctx, name, s) }}
	}
	return out
}
