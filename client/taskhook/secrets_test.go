package taskhook_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/secret"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// secretServers has one variable. Its reads fail with err.
type secretServers struct {
	mu    sync.Mutex
	err   error
	calls int
}

func (s *secretServers) Call(_ context.Context, _ string, _, resp any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.err == nil {
		resp.(*message.VariablesReadResponse).Data = &variable.Decrypted{Items: map[string]string{"k": "v"}}
	}
	return s.err
}

// set replaces the error, and returns the number of reads so far.
func (s *secretServers) set(err error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	return s.calls
}

// secretControl records values and events.
type secretControl struct {
	taskhook.Control
	mu     sync.Mutex
	values map[string]string
	events []string
}

func (c *secretControl) SetSecrets(values map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values = values
}

func (c *secretControl) Emit(e *nomad.TaskEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e.Type+": "+e.Message)
}

func (c *secretControl) got() (string, []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values["s.k"], slices.Clone(c.events)
}

// secretTask is a task with a secret block.
type secretTask struct {
	servers *secretServers
	control *secretControl
	hook    taskhook.TaskPrestartHook
	request taskhook.TaskPrestartRequest
}

func newSecretTask(retry render.Retry, err error) *secretTask {
	task := &nomad.Task{Name: "web", Secrets: []*nomad.Secret{{Name: "s", Provider: "nomad", Path: "p"}}}
	alloc := &nomad.Allocation{ID: "a1", Namespace: "prod", JobID: "shop"}
	s := &secretTask{servers: &secretServers{err: err}, control: &secretControl{}}
	node := &secret.Node{RPC: s.servers, Region: "global", NomadRetry: retry}
	for _, h := range taskhook.Order(taskhook.Config{Deps: taskhook.Deps{Secrets: node}, Alloc: alloc, Task: task, Identities: tokens{},
		Control: s.control, Log: slog.New(slog.DiscardHandler)}) {
		if h.Name() == "secrets" {
			s.hook = h.(taskhook.TaskPrestartHook)
		}
	}
	env := taskenv.New(taskenv.Subject{Node: &nomad.Node{}, Alloc: alloc, Task: task}).Build()
	s.request = taskhook.TaskPrestartRequest{Alloc: alloc, Task: task, Env: env}
	return s
}

// start starts the task, or attaches to it.
func (s *secretTask) start(ctx context.Context) (*taskhook.TaskPrestartResponse, error) {
	resp := &taskhook.TaskPrestartResponse{}
	return resp, s.hook.Prestart(ctx, &s.request, resp)
}

// The values are there for all hooks that use them, and their token of Vault is there for them.
func TestSecrets_Order(t *testing.T) {
	var names []string
	for _, h := range taskhook.Order(taskhook.Config{Alloc: &nomad.Allocation{}, Task: &nomad.Task{}, Log: slog.New(slog.DiscardHandler)}) {
		names = append(names, h.Name())
	}
	at := slices.Index(names, "secrets")
	for _, before := range []string{"identity", "vault"} {
		if i := slices.Index(names, before); i < 0 || i > at {
			t.Errorf("%s is not before secrets: %q", before, names)
		}
	}
	for _, after := range []string{"artifacts", "template", "dispatch_payload"} {
		if i := slices.Index(names, after); i >= 0 && i < at {
			t.Errorf("%s is before secrets: %q", after, names)
		}
	}
	if slices.Index(names, "template") < at || at < 0 {
		t.Errorf("hooks %q", names)
	}
}

func TestSecrets_OncePerLife(t *testing.T) {
	s := newSecretTask(render.Retry{}, nil)
	for range 3 { // the first start and two restarts
		if resp, err := s.start(t.Context()); err != nil || resp.Background != nil {
			t.Fatal(err)
		}
	}
	if got, events := s.control.got(); got != "v" || len(events) > 0 || s.servers.calls != 1 {
		t.Errorf("value %q, events %q, %d reads", got, events, s.servers.calls)
	}
	without := newSecretTask(render.Retry{}, errors.New("none"))
	without.request.Task.Secrets = nil
	if _, err := without.start(t.Context()); err != nil || without.servers.calls > 0 {
		t.Errorf("without blocks: %v, %d reads", err, without.servers.calls)
	}
}

// A start waits with one event. It fails with a Killing event when the attempts of the client are used up, and ends with a kill.
func TestSecrets_Failures(t *testing.T) {
	const cause = "annot read nomad.var.block(p@prod.global): the servers do not answer, or with an error (status 500)"
	synctest.Test(t, func(t *testing.T) {
		s := newSecretTask(render.Retry{Attempts: 12, Backoff: 250 * time.Millisecond, MaxBackoff: time.Minute}, apierror.ErrNoLeader)
		_, err := s.start(t.Context())
		var fault *taskhook.Fault
		if !errors.As(err, &fault) || fault.Type != nomad.TaskKilling || err.Error() != "c"+cause+" (failed attempts: 13)" ||
			!fault.Event().FailsTask {
			t.Errorf("error %v", err)
		}
		if _, events := s.control.got(); !slices.Equal(events, []string{"Template: C" + cause}) {
			t.Errorf("events %q", events)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := newSecretTask(render.Retry{}, apierror.ErrNoLeader).start(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("killed while it waits: %v", err)
		}
	})
	plugin := newSecretTask(render.Retry{}, nil)
	plugin.request.Task.Secrets[0].Provider = "own"
	if _, err := plugin.start(t.Context()); err == nil || err.Error() != `secret "s": this node has no plugins` {
		t.Errorf("without plugins: %v", err)
	}
}

// The same cause is one event, whether a fetch reports it while it waits or at its end.
func TestSecrets_RunningOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecretTask(render.Retry{Attempts: 5, Backoff: time.Second, MaxBackoff: time.Minute}, apierror.ErrNoLeader)
		s.request.Running = true
		resp, err := s.start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithTimeout(context.Background(), time.Hour)
		defer end()
		resp.Background(ctx)
		if _, events := s.control.got(); len(events) != 1 || !strings.Contains(events[0], ": Cannot read ") {
			t.Errorf("events %q", events)
		}
	})
}

// A running process of an earlier agent waits for 5 seconds only. Failures are events, are repeated in the background, and do not
// end it. They end with the process.
func TestSecrets_Running(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecretTask(render.Retry{Attempts: 2, Backoff: time.Second}, apierror.ErrNoLeader)
		s.request.Running = true
		begun := time.Now()
		resp, err := s.start(t.Context())
		if d := time.Since(begun); err != nil || d != 5*time.Second || resp.Background == nil {
			t.Fatalf("attached after %v: %v", d, err)
		}
		ctx, end := context.WithCancel(context.Background())
		var work sync.WaitGroup
		work.Go(func() { resp.Background(ctx) })
		time.Sleep(time.Minute)
		got, events := s.control.got()
		if got != "" || len(events) != 1 || !strings.HasSuffix(events[0], ". The task runs on, and this is repeated") {
			t.Errorf("value %q, events %q", got, events)
		}
		s.servers.set(nil)
		work.Wait()
		if got, _ := s.control.got(); got != "v" {
			t.Errorf("value %q", got)
		}
		end()
		before := s.servers.set(apierror.ErrNoLeader)
		s.request.Running = false
		if _, err := s.start(t.Context()); err != nil || s.servers.set(nil) != before {
			t.Errorf("the next start reads again: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the process ends before
		s := newSecretTask(render.Retry{}, apierror.ErrNoLeader)
		s.request.Running = true
		resp, err := s.start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(context.Background())
		end()
		resp.Background(ctx)
		before := s.servers.set(apierror.ErrNoLeader)
		time.Sleep(time.Hour)
		if after := s.servers.set(nil); after != before {
			t.Errorf("%d reads after the end of the process", after-before)
		}
		s.request.Running = false
		if _, err := s.start(t.Context()); err != nil {
			t.Errorf("the next start: %v", err)
		}
		if got, _ := s.control.got(); got != "v" {
			t.Errorf("value %q", got)
		}
	})
}
