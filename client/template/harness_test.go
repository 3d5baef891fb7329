package template_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/template"
	"github.com/open-nomad/open-nomad/client/vault/token"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/readproxy"
	"github.com/open-nomad/open-nomad/internal/render"
	_ "github.com/open-nomad/open-nomad/internal/render/engine" // the entry of a build without embedded programs
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testvars"
	"github.com/open-nomad/open-nomad/internal/vault"
	vaultreads "github.com/open-nomad/open-nomad/internal/vault/readproxy"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(testpace.Main(m))
}

var errNotRunning = errors.New("task is not running")

// task records what is done to it.
type task struct {
	mu       sync.Mutex
	events   []*nomad.TaskEvent
	restarts int
	signals  []string
	kills    []string
	env      map[string]string
	stopped  bool  // Restart and Signal fail
	refuse   error // of Signal
}

func (k *task) Emit(e *nomad.TaskEvent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

func (k *task) SetEnv(_ string, env map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.env = env
}

func (k *task) Restart(context.Context, *nomad.TaskEvent) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return errNotRunning
	}
	k.restarts++
	return nil
}

func (k *task) Signal(_ *nomad.TaskEvent, name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return errNotRunning
	}
	if k.refuse == nil {
		k.signals = append(k.signals, name)
	}
	return k.refuse
}

func (k *task) Kill(_ context.Context, e *nomad.TaskEvent) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !e.FailsTask {
		return errors.New("the kill does not fail the task")
	}
	k.kills = append(k.kills, e.KillReason)
	return nil
}

// messages returns the messages of the events of a type.
func (k *task) messages(kind string) (out []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.events {
		if e.Type == kind && !strings.HasPrefix(e.Message, "Rendering templates, confined by") {
			out = append(out, e.Message)
		}
	}
	return out
}

// killed returns the reasons of the kills.
func (k *task) killed() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.kills)
}

// restarted returns the number of restarts.
func (k *task) restarted() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.restarts
}

// sent returns the signals.
func (k *task) sent() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.signals)
}

func (k *task) read(f func(*task) bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return f(k)
}

// world is a task on a client, whose programs run without a confinement.
type world struct {
	t       testing.TB
	alloc   *allocdir.Dir
	dir     *allocdir.Task
	env     *taskenv.Env
	vars    *testvars.Server
	task    *task
	config  template.Config
	all     *template.Templates
	state   map[string]string
	startup error // of the programs
	consul  *consul.Agent
	secret  string // for reads of Consul or Vault

	vault      *vault.Cluster
	vaultToken vaultreads.Token
	logins     chan token.Token // to Vault, each received before the next

	mu       sync.Mutex
	programs []*exec.Cmd // started
	running  int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, task: &task{}, logins: make(chan token.Token)}
	var err error
	if w.alloc, err = allocdir.Build(filepath.Join(t.TempDir(), "allocs"), "a"); err != nil {
		t.Fatal(err)
	}
	if w.dir, err = w.alloc.BuildTask(allocdir.TaskConfig{Name: "web", UID: -1, GID: -1, SecretsMB: 40}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.dir.Close()
		if err := w.alloc.Destroy(); err != nil {
			t.Error(err)
		}
	})
	// The path of the socket can be longer than a socket address.
	w.vars = testvars.Start(t, fmt.Sprintf("/proc/self/fd/%d/api.sock", w.dir.Secrets().FD()))
	task := &nomad.Task{Name: "web", Env: map[string]string{"GREETING": "hello", "UP": "../.."}}
	b := taskenv.New(taskenv.Subject{Node: &nomad.Node{ID: "node-2", Datacenter: "dc7"}, Region: "global", Task: task,
		Alloc: &nomad.Allocation{ID: "a", Namespace: "default"}})
	b.SetPaths(taskenv.Paths{Alloc: "/alloc", Task: "/local", Secrets: "/secrets"})
	w.env = b.Build()
	w.config = template.Config{NomadRetry: render.Retry{Attempts: 2, Backoff: 10 * time.Millisecond, MaxBackoff: 200 * time.Millisecond}}
	w.restartAgent()
	return w
}

// restartAgent makes a new agent's templates, with the stored state only.
func (w *world) restartAgent() {
	w.all = template.New(template.Deps{
		Config: w.config, Task: w.task, NotRunning: errNotRunning, Shared: w.alloc.Shared,
		Consul: w.consul, ConsulToken: readproxy.Token{Secret: w.consulToken, Rejected: w.rejectToken},
		Vault: w.vault, VaultToken: w.vaultToken,
		VaultLogins: func() (<-chan token.Token, func()) { return w.logins, func() {} }, Namespace: "default", Labels: []metrics.Label{{Name: "test", Value: w.t.Name()}}, Log: slog.New(slog.DiscardHandler),
	})
}

// run runs a program with the same protocol as a driver.
func (w *world) run(ctx context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error) {
	if w.startup != nil {
		return nil, w.startup
	}
	cmd := exec.CommandContext(ctx, fmt.Sprintf("/proc/self/fd/%d", s.Program.Fd()))
	cmd.Args, cmd.Dir, cmd.Env = s.Args, s.Dir, []string{"CANARY=agent"}
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdin, cmd.Stdout = s.Stdio[0], s.Stdio[1]
	if s.Stdio[2] != nil {
		cmd.Stderr = s.Stdio[2]
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.programs = append(w.programs, cmd)
	w.running++
	w.mu.Unlock()
	err := cmd.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		return nil, err
	}
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return &drivers.ExitResult{Signal: int(ws.Signal())}, nil
	}
	return &drivers.ExitResult{ExitCode: ws.ExitStatus()}, nil
}

// programsRun returns the number of started programs, and how many of them run.
func (w *world) programsRun() (started, running int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.programs), w.running
}

func (w *world) start(list ...*nomad.Template) template.Start {
	return template.Start{
		Templates: list, Env: w.env, Dir: w.dir, UID: -1, GID: -1, Token: idtoken.New(testvars.Token, ""), State: w.state,
		Confine: func() (*template.Confinement, error) { return &template.Confinement{Run: w.run, By: "the test"}, nil },
	}
}

// begun is a started task.
type begun struct {
	*template.Begun
	stop func()
}

// begin starts the task, and its Background function.
func (w *world) begin(s template.Start) (*begun, error) {
	b, err := w.all.Begin(w.t.Context(), s)
	if err != nil {
		return nil, err
	}
	w.state = b.State
	ctx, cancel := context.WithCancel(w.t.Context())
	var work sync.WaitGroup
	work.Go(func() { b.Background(ctx) })
	stop := sync.OnceFunc(func() {
		cancel()
		work.Wait()
	})
	w.t.Cleanup(stop)
	return &begun{b, stop}, nil
}

// mustBegin is begin of a start that must succeed.
func (w *world) mustBegin(s template.Start) *begun {
	w.t.Helper()
	b, err := w.begin(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// runs starts the task and its process, without exec.
func (w *world) runs(list ...*nomad.Template) *begun {
	w.t.Helper()
	b := w.mustBegin(w.start(list...))
	w.all.Started(nil)
	return b
}

// file returns the content of a file of the task, or its error.
func (w *world) file(name string) string {
	f, err := os.OpenFile(filepath.Join(w.dir.Path(), name), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO has no writer
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (w *world) put(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir.Path(), name), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) until(what string, met func() bool) {
	w.t.Helper()
	testpace.Until(w.t, what, met)
}

// text returns a template with an embedded text. Its changes are ignored.
func text(dest, body string) *nomad.Template {
	return &nomad.Template{DestPath: dest, EmbeddedTmpl: body, ChangeMode: "noop"}
}

// variable returns a template that renders an item of a variable.
func variable(dest, path, item string) *nomad.Template {
	return text(dest, fmt.Sprintf("{{ with nomadVar %q }}{{ .%s }}{{ end }}", path, item))
}

func with(t *nomad.Template, change func(*nomad.Template)) *nomad.Template {
	change(t)
	return t
}

func count(list []string, part string) int {
	return len(slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !strings.Contains(s, part) }))
}
