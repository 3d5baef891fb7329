package taskhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// firstTokenWait limits how long a start waits for the tokens of named identities.
const firstTokenWait = time.Minute

// tokenSize is the size limit for reading a token file.
const tokenSize = 16 << 10

// identityHook delivers the first tokens of a start to the task's environment or its files. The renewalHook
// delivers later ones. Both use the same identityHook.
type identityHook struct {
	ids     Identities
	control Control
	log     *slog.Logger

	watches []watch // of the current start

	mu  sync.Mutex
	env map[string]string
}

// watch is the subscription to the tokens of one identity.
type watch struct {
	id     *nomad.WorkloadIdentity
	tokens <-chan idtoken.Token
	missed bool // the recovered process has another token
}

func newIdentityHook(c Config) *identityHook {
	return &identityHook{ids: c.Identities, control: c.Control, log: c.Log}
}

func (*identityHook) Name() string { return "identity" }

// place is the destination of the tokens of one start.
type place struct {
	dir *allocdir.Task
	env *taskenv.Env
}

func (h *identityHook) Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if req.Dir == nil {
		return errNoDir
	}
	h.mu.Lock()
	h.env = map[string]string{}
	h.mu.Unlock()
	at := place{req.Dir, req.Env}
	if id := req.Task.Identity; id != nil {
		if err := h.put(at, id, req.NomadToken); err != nil {
			return err
		}
	}
	h.watches = nil
	var stops []func()
	timed, cancel := context.WithTimeout(ctx, firstTokenWait)
	defer cancel()
	over := timed.Done()
	if req.Running {
		over = nil // later tokens are changes
	}
	for _, id := range req.Task.Identities {
		tokens, stop := h.ids.Watch(message.WIHandle{
			IdentityName: id.Name, WorkloadIdentifier: req.Task.Name, WorkloadType: message.WorkloadTypeTask,
		})
		stops = append(stops, stop)
		w := watch{id: id, tokens: tokens}
		var err error
		if w.missed, err = h.first(ctx, at, w, over); err != nil {
			stopAll(stops)
			return err
		}
		h.watches = append(h.watches, w)
	}
	resp.Env = h.environment()
	if len(stops) > 0 {
		resp.Background = func(ctx context.Context) {
			<-ctx.Done()
			stopAll(stops)
		}
	}
	return nil
}

// first waits for the identity's token until over is closed, and writes it. If over is nil, it
// does not wait. missed reports that the file had another token.
func (h *identityHook) first(ctx context.Context, at place, w watch, over <-chan struct{}) (missed bool, err error) {
	if over == nil {
		select {
		case token := <-w.tokens:
			had := readToken(at, w.id)
			return had != "" && had != token.Reveal(), h.put(at, w.id, token)
		default:
			return false, nil
		}
	}
	select {
	case token := <-w.tokens:
		return false, h.put(at, w.id, token)
	case <-over:
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		h.log.Warn("starting without the token of an identity", "identity", w.id.Name)
		return false, nil
	}
}

// renewalHook runs after the download of artifacts. It delivers those tokens that are newer than the first ones
// of the start, because their claims can contain the digests of the artifacts. While the task runs, it writes
// every renewed token and then applies the identity's change mode. A token that was delivered before the process
// started is not a change. A recovered process has already seen the token in its file.
type renewalHook struct{ first *identityHook }

func (*renewalHook) Name() string { return "identity_renewal" }

func (r *renewalHook) Prestart(_ context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if len(r.first.watches) == 0 {
		return nil
	}
	at := place{req.Dir, req.Env}
	var follow []func(context.Context)
	for _, w := range r.first.watches {
		if !req.Running { // for a running task, the token is a change
			if err := r.first.newer(at, w); err != nil {
				return err
			}
		}
		follow = append(follow, func(ctx context.Context) { r.first.follow(ctx, at, w) })
	}
	resp.Background = func(ctx context.Context) { runAll(ctx, follow) }
	return nil
}

// newer writes a token that has arrived since the first one.
func (h *identityHook) newer(at place, w watch) error {
	select {
	case token := <-w.tokens:
		err := h.put(at, w.id, token)
		if err == nil {
			h.control.SetEnv(h.Name(), h.environment())
		}
		return err
	default:
		return nil
	}
}

// follow writes every newer token and applies the change mode. If the process has missed one, it applies the
// change mode at once.
func (h *identityHook) follow(ctx context.Context, at place, w watch) {
	if w.missed {
		h.changed(ctx, w.id)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case token := <-w.tokens:
			if err := h.put(at, w.id, token); err != nil {
				h.log.Warn("write renewed token", "identity", w.id.Name, "err", err)
				continue
			}
			h.control.SetEnv(h.Name(), h.environment())
			h.changed(ctx, w.id)
		}
	}
}

// changed applies the change mode.
func (h *identityHook) changed(ctx context.Context, id *nomad.WorkloadIdentity) {
	reason := fmt.Sprintf("identity %q was renewed", id.Name)
	var err error
	switch id.ChangeMode {
	case nomad.WIChangeModeRestart:
		err = h.control.Restart(ctx, &nomad.TaskEvent{Type: nomad.TaskRestartSignal, RestartReason: reason})
	case nomad.WIChangeModeSignal:
		err = h.control.Signal(&nomad.TaskEvent{
			Type: nomad.TaskSignaling, TaskSignal: id.ChangeSignal, TaskSignalReason: reason,
		}, id.ChangeSignal)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	if errors.Is(err, ErrNotRunning) {
		return // the next process starts with the new token
	}
	h.log.Warn("change mode of identity failed", "identity", id.Name, "mode", id.ChangeMode, "err", err)
	if id.ChangeMode != nomad.WIChangeModeSignal {
		return
	}
	// Otherwise the task would keep using the old token.
	err = h.control.Kill(ctx, &nomad.TaskEvent{
		Type: nomad.TaskKilling, FailsTask: true,
		KillReason: fmt.Sprintf("%s but signal %s could not be sent", reason, id.ChangeSignal),
	})
	if err != nil && ctx.Err() == nil {
		h.log.Error("kill task after a failed signal", "identity", id.Name, "err", err)
	}
}

// put writes one token.
func (h *identityHook) put(at place, id *nomad.WorkloadIdentity, token idtoken.Token) error {
	if token.IsZero() {
		return nil
	}
	if id.Env {
		name := "NOMAD_TOKEN"
		if !isDefault(id) {
			name += "_" + id.Name
		}
		h.mu.Lock()
		h.env[name] = token.Reveal()
		h.env["NOMAD_UNIX_ADDR"] = "unix://" + path.Join(at.env.Var("NOMAD_SECRETS_DIR"), socketName)
		h.mu.Unlock()
	}
	if !id.File {
		return nil
	}
	if err := writeToken(at, id, token); err != nil {
		return setupFault(fmt.Errorf("write token of identity %q: %w", id.Name, err))
	}
	return nil
}

// writeToken replaces the file of a token. Only the task's user can read it.
func writeToken(at place, id *nomad.WorkloadIdentity, token idtoken.Token) error {
	attributes := at.dir.Secret()
	if id.Filepath == "" {
		return at.dir.Secrets().Replace(tokenName(id), []byte(token.Reveal()), attributes)
	}
	name := relative(at, id.Filepath)
	into, err := at.dir.Root().MakeAll(path.Dir(name), 0o755, attributes.UID, attributes.GID)
	if err != nil {
		return err
	}
	defer into.Close()
	return into.Replace(path.Base(name), []byte(token.Reveal()), attributes)
}

// readToken returns the content of a token file, or "" if it cannot be read.
func readToken(at place, id *nomad.WorkloadIdentity) string {
	if !id.File {
		return ""
	}
	from, name := at.dir.Secrets(), tokenName(id)
	if id.Filepath != "" {
		from, name = at.dir.Root(), relative(at, id.Filepath)
	}
	text, err := from.ReadFile(name, tokenSize)
	if err != nil {
		return "" // the file is replaced in any case
	}
	return string(text)
}

// tokenName returns the file name of a token in the secrets directory.
func tokenName(id *nomad.WorkloadIdentity) string {
	if isDefault(id) {
		return "nomad_token"
	}
	return "nomad_" + id.Name + ".jwt"
}

// relative converts a path of the job, as the task sees it, to a path relative to the task's
// directory. Opening it fails if it leaves the directory.
func relative(at place, file string) string {
	file = at.env.Expand(file)
	if below, ok := strings.CutPrefix(file, at.dir.Path()+"/"); ok {
		file = below
	}
	return strings.TrimPrefix(path.Clean(file), "/")
}

func isDefault(id *nomad.WorkloadIdentity) bool {
	return id.Name == "" || id.Name == nomad.WorkloadIdentityDefaultName
}

func (h *identityHook) environment() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.env)
}

func stopAll(stops []func()) {
	for _, stop := range stops {
		stop()
	}
}

// runAll runs the functions in parallel and waits for them.
func runAll(ctx context.Context, fns []func(context.Context)) {
	var wg sync.WaitGroup
	for _, fn := range fns {
		wg.Go(func() { fn(ctx) })
	}
	wg.Wait()
}
