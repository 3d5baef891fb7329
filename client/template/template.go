// Package template renders the templates of tasks. It writes the files, applies the change modes and
// reports to the task. The evaluation happens in a program (internal/render/engine) that runs with the
// confinement of the task: see package sidecar and drivers.Confiner.
//
//	            Begin                      the task runs
//	start ─▶ program ─▶ first render ─▶ program watches ──changed──▶ files, environment, change mode
//	                         │                 └── dies ──▶ backoff ──▶ program
//	                         └─ nothing can change ──▶ no program
//
// A file is written through descriptors of the task's directory or the shared one (internal/safefs).
// Its content is copied to a new file, which then replaces the old one. So a link that a task puts in
// the way is replaced or refused, never followed. The agent does not hold the content in memory. A
// file counts as changed if its bytes, mode or owner differ.
//
// Before the first complete render, an error fails the start. Afterwards an error of a template kills
// the task, as in Nomad 2.0. A failure to read data, or an exit of the program, does not. The last
// content stays, and one event reports the failure and one its end.
//
// Templates that no data can change are rendered once. A task whose templates are all of this kind
// has no program. Their hashes are the hook's state, so a restart does not render them again.
//
// With Consul or Vault, each program has a connection to proxies of the agent, which add the tokens
// (internal/readproxy). It is descriptor 2 of the program, and ends with it. A new token of Vault is used for the next
// request. After a new login, the program runs again, because the leases of the older token end with it. A renewal has
// no such effect.
//
// Goroutines: those of a start end with it. They run the program, read its frames, serve its requests to Consul and
// Vault, report, follow the logins to Vault, and apply change modes.
package template

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/vault/token"
	"github.com/open-nomad/open-nomad/internal/consul"
	consulreads "github.com/open-nomad/open-nomad/internal/consul/readproxy"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/vault"
	vaultreads "github.com/open-nomad/open-nomad/internal/vault/readproxy"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Hook is the name under which the variables of env = true templates are set.
const Hook = "template"

// Task is the task of the templates (taskhook.Control).
type Task interface {
	Emit(e *nomad.TaskEvent)
	SetEnv(hook string, env map[string]string)
	Restart(ctx context.Context, e *nomad.TaskEvent) error
	Signal(e *nomad.TaskEvent, signal string) error
	Kill(ctx context.Context, e *nomad.TaskEvent) error
}

// Exec runs a command in the task (taskhook.Exec).
type Exec func(ctx context.Context, command []string) ([]byte, *drivers.ExitResult, error)

// Deps holds what the templates of a task need.
type Deps struct {
	Config Config
	Task   Task
	// NotRunning is wrapped by the errors of Restart and Signal for a task without process.
	NotRunning error
	Shared     func() (*safefs.Dir, error) // opens the directory that the tasks share
	// Consul is the agent that the functions of Consul read, with the token. nil: they read native services and variables.
	Consul      *consul.Agent
	ConsulToken consulreads.Token
	// Vault is the cluster that the functions of Vault use, with the token of the task. nil: they are refused.
	Vault      *vault.Cluster
	VaultToken vaultreads.Token // without Current, the task has no vault block
	// VaultLogins returns a channel that receives the current token, and then that of each new login (token.Manager). nil: none.
	VaultLogins func() (<-chan token.Token, func())
	Namespace   string
	Labels      []metrics.Label // of the task's metrics
	Log         *slog.Logger
}

// Confinement runs programs of the client as the task would run (taskhook.Confinement).
type Confinement struct {
	Run func(ctx context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error)
	By  string // who confines them
	// Memory is the limit of the programs before the task starts, in bytes; 0 is none.
	Memory int64
}

// Start is a start of the task, or its recovery by a new agent.
type Start struct {
	Templates []*nomad.Template
	Env       *taskenv.Env
	Dir       *allocdir.Task
	UID, GID  int // owner of the files; -1 keeps the agent's user
	Token     idtoken.Token
	Confine   func() (*Confinement, error)
	// Running is set if the process is already running. Then Begin does not wait, and changed files
	// cause their change mode.
	Running bool
	// All renders also the templates that were rendered before and that no data can change.
	All   bool
	State map[string]string // of the previous start, as returned by Begin
}

// Begun is the result of the first render.
type Begun struct {
	Env        map[string]string
	State      map[string]string
	Background func(ctx context.Context) // runs until its context ends
}

// Templates are the templates of a task. Its methods may be called concurrently, but Begin only
// after the Background function of the previous start has returned.
type Templates struct {
	deps Deps

	mu       sync.Mutex
	run      *run            // of the current start
	kept     map[string]kind // files with good content, by the hash of their template
	scripts  bool            // the scripts of run_on_first_render have run
	reported bool            // the confinement has been reported
}

// New returns the templates of a task.
func New(d Deps) *Templates { return &Templates{deps: d, kept: map[string]kind{}} }

// waitKept limits how long a start waits for a render if all files have content already.
const waitKept = 5 * time.Second

// Begin renders the templates of a start. It returns when all are rendered. If all files have
// content already, it waits for a short time only. An error is final for the task unless it is a
// drivers.RecoverableError.
func (t *Templates) Begin(ctx context.Context, s Start) (*Begun, error) {
	entries, err := t.resolve(s.Templates, s.Env, s.Dir)
	if err != nil {
		return nil, err
	}
	r := t.newRun(s, entries)
	// The program outlives the start: the Background function ends it.
	loopCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go r.loop(loopCtx)
	end := func() {
		cancel()
		<-r.done
		t.leave(r)
	}
	err = r.awaitFirst(ctx)
	var env map[string]string
	if err == nil {
		env, err = r.environment()
	}
	if err != nil {
		end()
		return nil, err
	}
	return &Begun{Env: env, State: t.state(entries), Background: func(ctx context.Context) {
		<-ctx.Done()
		end()
	}}, nil
}

// leave ends the use of a start.
func (t *Templates) leave(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.run == r {
		t.run = nil
	}
}

// Started permits change modes, after the start of the process. exec is nil if the driver cannot
// run commands in the task. The returned function runs the scripts of the first render; it can be nil.
func (t *Templates) Started(exec Exec) func(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.run == nil {
		return nil
	}
	r := t.run
	r.exec = exec
	close(r.started)
	if t.scripts || !r.hasFirstScripts() {
		return nil
	}
	t.scripts = true
	return r.firstScripts
}

// Update replaces the templates of the current start, and the token unless it is zero. It does not wait.
func (t *Templates) Update(templates []*nomad.Template, token idtoken.Token) {
	if r := t.current(); r != nil { // else the next start has them
		r.update(templates, token)
	}
}

// current returns the current start, or nil.
func (t *Templates) current() *run {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.run
}

// kind is how a rendered file can change.
type kind string

// The kinds, as stored in the state.
const (
	static kind = "static"
	live   kind = "live"
)

// keep records that a file has good content.
func (t *Templates) keep(hash string, k kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept[hash] = k
}

func (t *Templates) keptAs(hash string) kind {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept[hash]
}

// state returns the state to store.
func (t *Templates) state(entries []*entry) map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]string{}
	for _, e := range entries {
		if k, ok := t.kept[e.hash]; ok {
			out[e.hash] = string(k)
		}
	}
	return out
}

// restore adds the files of a stored state.
func (t *Templates) restore(state map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := map[string]kind{}
	for hash, k := range state {
		if kind(k) == static || kind(k) == live {
			known[hash] = kind(k)
		}
	}
	maps.Copy(known, t.kept)
	t.kept = known
}
