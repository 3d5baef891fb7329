package taskhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/vault/token"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
)

// VaultTokens holds the tokens of Vault of the allocation's tasks (token.Manager).
type VaultTokens interface {
	// Enabled reports whether the node has Vault.
	Enabled() bool
	// Confirm waits until the task has a token that Vault has accepted since this agent started.
	Confirm(ctx context.Context, task string) error
	// Watch returns a channel that receives the current token of a task, and then that of each new login.
	Watch(task string) (<-chan token.Token, func())
	// EndTask revokes the tokens of a task that is dead.
	EndTask(task string)
	VaultSecrets
}

// VaultSecrets provides the tokens of tasks for requests to Vault.
type VaultSecrets interface {
	// Current returns the function that returns the current secret of a task, "" while there is none, and its namespace.
	Current(task string) func() (secret, namespace string)
	// Rejected reports that Vault answered 403 to a request with a secret. It returns true when another one is current.
	Rejected(ctx context.Context, task, secret string) bool
}

const (
	// vaultFile is the file of the token in the secrets directory.
	vaultFile = "vault_token"
	// vaultSeen is the file in the private directory with the hash of the token that the process has got.
	vaultSeen = "vault_token.sha256"
	// vaultQuiet is how long a start waits for its token without an event. The events of the logins have the causes.
	vaultQuiet = 3 * time.Second
	// waitsForVault is this event.
	waitsForVault = "Waiting for a token of Vault: the task starts after its login"
	// vaultUnwritten begins the event for a new token that cannot be written.
	vaultUnwritten = "The new token of Vault cannot be written, and the task keeps the older one: "
	// newVaultToken is the reason of a change mode.
	newVaultToken = "Vault: new Vault token acquired"
	// vaultRestart and vaultSignal are change modes. The other one is noop.
	vaultRestart, vaultSignal = "restart", "signal"
)

// vaultHook gives the token of Vault to a task with a vault block. A start waits for the token until the task is killed.
//
// The token of a new login while the task runs replaces the file and the variables. The change mode of the block follows.
// A hash of the token that the process has got is kept in the private directory. With it, a restarted agent applies the
// change mode for a login that the process has missed.
type vaultHook struct {
	task    string
	block   bool // the task has a vault block, which an update in place cannot change
	tokens  VaultTokens
	control Control
	log     *slog.Logger

	mu       sync.Mutex
	started  chan string // of the current start: receives VAULT_TOKEN of the process
	stopping bool        // the process is being stopped: the change mode is not applied
}

func newVaultHook(c Config) hook.Hook {
	return &vaultHook{task: c.Task.Name, block: c.Task.Vault != nil, tokens: c.VaultTokens, control: c.Control, log: c.Log}
}

func (*vaultHook) Name() string { return "vault" }

// vaultStart is one start of a task with a vault block.
type vaultStart struct {
	block   *nomad.Vault
	dir     *allocdir.Task
	tokens  <-chan token.Token
	started <-chan string // receives when the process has started; nil for one that ran before

	pending token.Token     // the newest, while it is not written; zero for none
	current token.Token     // the newest that is written
	given   map[string]bool // the hashes of all that were written since Prestart
	seen    string          // the hash of the token that the process has got, "" if unknown
}

func (h *vaultHook) Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	block := req.Task.Vault
	if block == nil {
		return nil
	}
	if h.tokens == nil || !h.tokens.Enabled() {
		return &Fault{Type: nomad.TaskSetupFailure, Err: errors.New(
			"the task has a vault block, and this client has no enabled vault block: add the block to the configuration of the client, " +
				"or constrain the job to nodes with attribute vault.version")}
	}
	if req.Dir == nil {
		return errNoDir
	}
	started := make(chan string, 1)
	h.mu.Lock()
	h.started, h.stopping = started, false
	h.mu.Unlock()
	resp.Below = true
	s := &vaultStart{block: block, dir: req.Dir, given: map[string]bool{}}
	if req.Running {
		s.seen = h.loadSeen(s)
	} else {
		s.started = started
		defer h.announce()()
		if err := h.tokens.Confirm(ctx, h.task); err != nil {
			return err
		}
	}
	tokens, stop := h.tokens.Watch(h.task)
	s.tokens = tokens
	if !req.Running {
		if err := h.begin(ctx, s); err != nil {
			stop()
			return err
		}
	}
	resp.Background = func(ctx context.Context) {
		defer stop()
		h.follow(ctx, s)
	}
	return nil
}

// announce adds an event if the start still waits for its token after vaultQuiet. The returned function ends this.
func (h *vaultHook) announce() (end func()) {
	timer := time.AfterFunc(vaultQuiet, func() {
		h.control.Emit(&nomad.TaskEvent{Type: nomad.TaskHookMessage, Message: waitsForVault, DisplayMessage: waitsForVault})
	})
	return func() { timer.Stop() }
}

// begin waits for the first token and delivers it.
func (h *vaultHook) begin(ctx context.Context, s *vaultStart) error {
	select {
	case first := <-s.tokens:
		if err := h.put(s, first); err != nil {
			return setupFault(err)
		}
		if err := h.storeSeen(s); err != nil {
			return setupFault(err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// follow delivers the token of each new login, and applies the change mode if the process has another one. A token that
// cannot be written is not delivered: follow tries again.
func (h *vaultHook) follow(ctx context.Context, s *vaultStart) {
	retry := backoff.Backoff{Min: time.Second, Max: time.Minute}
	var again <-chan time.Time // nil while no write has failed
	for {
		select {
		case <-ctx.Done():
			return
		case s.pending = <-s.tokens:
		case <-again:
		case got := <-s.started:
			s.started, s.seen = nil, s.process(got)
		}
		if err := h.write(s); err != nil {
			if again == nil {
				h.unwritten(err)
			}
			again = time.After(retry.Next())
			continue
		}
		again = nil
		retry.Reset()
		if s.started == nil {
			h.deliver(ctx, s)
		}
	}
}

// process returns the hash of the token that a process has got whose VAULT_TOKEN is given. The variable counts only if its
// value is a token of this start: the job can set another one.
func (s *vaultStart) process(variable string) string {
	if hash := hashOf(variable); s.given[hash] {
		return hash
	}
	return hashOf(s.current.Secret.Reveal())
}

// write puts the pending token, if there is one.
func (h *vaultHook) write(s *vaultStart) error {
	if s.pending.IsZero() {
		return nil
	}
	if err := h.put(s, s.pending); err != nil {
		return err
	}
	s.pending = token.Token{}
	return nil
}

// unwritten reports a token that cannot be written.
func (h *vaultHook) unwritten(err error) {
	h.log.Warn("write the new token of Vault, retrying", "err", err)
	text := vaultUnwritten + err.Error() + ". It is tried again"
	h.control.Emit(&nomad.TaskEvent{Type: nomad.TaskHookMessage, Message: text, DisplayMessage: text})
}

// deliver applies the change mode if the process has not got the current token.
func (h *vaultHook) deliver(ctx context.Context, s *vaultStart) {
	if s.seen != "" && s.seen != hashOf(s.current.Secret.Reveal()) && !h.changed(ctx, s.block) {
		return // the next start has the token, or the next agent applies the change mode
	}
	if err := h.storeSeen(s); err != nil {
		h.log.Warn("store which token of Vault the task has", "err", err)
	}
}

// put replaces the file, then the variables. Only the task's user and group can read the file.
func (h *vaultHook) put(s *vaultStart, t token.Token) error {
	if !s.block.DisableFile {
		attributes := s.dir.Secret()
		attributes.Mode = 0o640
		if err := s.dir.Secrets().Replace(vaultFile, []byte(t.Secret.Reveal()), attributes); err != nil {
			return fmt.Errorf("write the token of Vault: %w", err)
		}
	}
	env := map[string]string{}
	if s.block.Env {
		env["VAULT_TOKEN"] = t.Secret.Reveal()
		if t.Namespace != "" {
			env["VAULT_NAMESPACE"] = t.Namespace
		}
	}
	s.current = t
	s.given[hashOf(t.Secret.Reveal())] = true
	h.control.SetEnv(h.Name(), env)
	return nil
}

// changed applies the change mode. It reports whether that is done.
func (h *vaultHook) changed(ctx context.Context, block *nomad.Vault) bool {
	h.mu.Lock()
	stopping := h.stopping
	h.mu.Unlock()
	if stopping {
		return false
	}
	var err error
	switch block.ChangeMode {
	case vaultRestart:
		err = h.control.Restart(ctx, &nomad.TaskEvent{Type: nomad.TaskRestartSignal, RestartReason: newVaultToken})
	case vaultSignal:
		err = h.control.Signal(&nomad.TaskEvent{
			Type: nomad.TaskSignaling, TaskSignal: block.ChangeSignal, TaskSignalReason: newVaultToken,
		}, block.ChangeSignal)
	}
	switch {
	case err == nil:
		return true
	case ctx.Err() != nil:
		return false
	case errors.Is(err, ErrNotRunning):
		return false // the next process starts with the new token
	}
	h.log.Warn("change mode of Vault failed", "mode", block.ChangeMode, "err", err)
	if block.ChangeMode == vaultSignal {
		h.kill(ctx, block.ChangeSignal)
	}
	return false
}

// kill ends a task that cannot be signalled, since it would keep using a token that is not valid.
func (h *vaultHook) kill(ctx context.Context, signal string) {
	err := h.control.Kill(ctx, &nomad.TaskEvent{
		Type: nomad.TaskKilling, FailsTask: true, KillReason: fmt.Sprintf("%s, but signal %s could not be sent", newVaultToken, signal),
	})
	if err != nil && ctx.Err() == nil {
		h.log.Error("kill task after a failed signal", "err", err)
	}
}

// Poststart reports VAULT_TOKEN of the process. A login may have replaced the token while the process started.
func (h *vaultHook) Poststart(_ context.Context, req *TaskPoststartRequest, _ *TaskPoststartResponse) error {
	if req.Task.Vault == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case h.started <- req.Env.Var("VAULT_TOKEN"):
	default: // Prestart failed for a running process, or has reported it
	}
	return nil
}

// PreKill ends the change modes: the process is being stopped, and the next one starts with the current token.
func (h *vaultHook) PreKill(context.Context, *TaskPreKillRequest, *TaskPreKillResponse) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = true
	return nil
}

// Stop revokes the token: the task is dead.
func (h *vaultHook) Stop(context.Context, *TaskStopRequest, *TaskStopResponse) error {
	if h.tokens != nil && h.block {
		h.tokens.EndTask(h.task)
	}
	return nil
}

// hashOf returns the hash of a secret, which may be stored.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// storeSeen keeps the hash of the current token as that of the process.
func (h *vaultHook) storeSeen(s *vaultStart) error {
	s.seen = hashOf(s.current.Secret.Reveal())
	private, err := s.dir.Private()
	if err != nil {
		return err
	}
	defer private.Close()
	return private.Replace(vaultSeen, []byte(s.seen), safefs.File{Mode: 0o600, UID: -1, GID: -1})
}

// loadSeen returns the hash that an earlier agent has kept, or "" if it cannot be read.
func (h *vaultHook) loadSeen(s *vaultStart) string {
	private, err := s.dir.Private()
	if err != nil {
		h.log.Warn("read which token of Vault the task has", "err", err)
		return ""
	}
	defer private.Close()
	text, err := private.ReadFile(vaultSeen, 2*sha256.Size)
	if err != nil {
		h.log.Warn("read which token of Vault the task has", "err", err)
	}
	return string(text)
}
