package taskhook_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/consul/token"
	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// consulTokens has a channel for each identity and workload.
type consulTokens map[[2]string]chan login.Secret

func (consulTokens) Enabled() bool { return true }

func (c consulTokens) Watch(identity, workload string) (<-chan login.Secret, func()) {
	return c[[2]string{identity, workload}], func() {}
}

func (consulTokens) Token(string, string) func() string { return func() string { return "" } }

func (consulTokens) Invalidate(string) {}

// consulTask starts the hooks for tokens of a task with a real directory.
type consulTask struct {
	dir     *allocdir.Task
	hooks   map[string]taskhook.TaskPrestartHook
	request taskhook.TaskPrestartRequest
	control *changes
}

func newConsulTask(t *testing.T, tokens taskhook.ConsulTokens, task *nomad.Task) *consulTask {
	t.Helper()
	control := &changes{}
	c := newTokenTask(t, taskhook.Config{Task: task, Control: control, Tokens: tokens})
	c.control = control
	return c
}

// newTokenTask starts the hooks of a task with a real directory.
func newTokenTask(t *testing.T, cfg taskhook.Config) *consulTask {
	t.Helper()
	alloc, err := allocdir.Build(filepath.Join(t.TempDir(), "alloc"), "a1")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := alloc.BuildTask(allocdir.TaskConfig{Name: "web", UID: os.Getuid(), GID: os.Getgid()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dir.Close()
		if err := alloc.Destroy(); err != nil {
			t.Error(err)
		}
	})
	task := cfg.Task
	task.Name = "web"
	group := &nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{task},
		Services: []*nomad.Service{{Name: "other", Identity: &nomad.WorkloadIdentity{Name: "no"}},
			{Name: "api", Identity: &nomad.WorkloadIdentity{Name: "consul-service_api-http"}}}}
	a := &nomad.Allocation{ID: "a1", TaskGroup: "g", Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{group}}}
	c := &consulTask{dir: dir, hooks: map[string]taskhook.TaskPrestartHook{}}
	cfg.Dir, cfg.Alloc, cfg.Log = alloc, a, slog.New(slog.DiscardHandler)
	for _, h := range taskhook.Order(cfg) {
		if h, ok := h.(taskhook.TaskPrestartHook); ok {
			c.hooks[h.Name()] = h
		}
	}
	env := taskenv.New(taskenv.Subject{Node: &nomad.Node{}, Alloc: a, Task: task}).Build()
	c.request = taskhook.TaskPrestartRequest{Alloc: a, Task: task, Dir: dir, Env: env}
	return c
}

func (c *consulTask) start(ctx context.Context, name string) (*taskhook.TaskPrestartResponse, error) {
	resp := &taskhook.TaskPrestartResponse{}
	return resp, c.hooks[name].Prestart(ctx, &c.request, resp)
}

// file returns the content and the mode of a file in the secrets directory.
func (c *consulTask) file(name string) (string, os.FileMode) {
	at := filepath.Join(c.dir.SecretsPath(), name)
	text, err := os.ReadFile(at)
	if err != nil {
		return err.Error(), 0
	}
	info, err := os.Stat(at)
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		return "wrong owner", 0
	}
	return string(text), info.Mode().Perm()
}

func withConsul() *nomad.Task {
	return &nomad.Task{Identities: []*nomad.WorkloadIdentity{{Name: "aws"}, {Name: "consul_default"}}}
}

// TestConsulToken checks the file and the environment of a start, and that a newer token replaces the file.
func TestConsulToken(t *testing.T) {
	ch := make(chan login.Secret, 1)
	c := newConsulTask(t, consulTokens{{"consul_default", "web"}: ch}, withConsul())
	ch <- login.NewSecret("first")
	resp, err := c.start(t.Context(), "consul_task")
	if err != nil {
		t.Fatal(err)
	}
	if text, mode := c.file("consul_token"); text != "first" || mode != 0o640 {
		t.Errorf("file has %q, mode %o, want first, 640", text, mode)
	}
	if resp.Env["CONSUL_TOKEN"] != "first" || resp.Env["CONSUL_HTTP_TOKEN"] != "first" || len(resp.Env) != 2 {
		t.Errorf("environment %v", resp.Env)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { resp.Background(ctx) })
	ch <- login.NewSecret("second")
	ch <- login.NewSecret("third") // received: the second one was
	testpace.Until(t, "the third token", func() bool { return c.control.variable("CONSUL_TOKEN") == "third" })
	if text, _ := c.file("consul_token"); text != "third" {
		t.Errorf("file has %q after the renewal, want third", text)
	}
	cancel()
	done.Wait()
}

// TestConsulToken_Waits checks that a start waits for the token until it is cancelled, and that a running task does not wait.
func TestConsulToken_Waits(t *testing.T) {
	c := newConsulTask(t, consulTokens{}, withConsul())
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := c.start(ctx, "consul_task"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Prestart() = %v after the kill", err)
		}
		c.request.Running = true
		if resp, err := c.start(t.Context(), "consul_task"); err != nil || resp.Env != nil || resp.Background == nil {
			t.Errorf("Prestart() of a running task = %v, %+v", err, resp)
		}
	})
}

// TestConsulToken_OfService checks the file of the token of the service that a task serves.
func TestConsulToken_OfService(t *testing.T) {
	for kind, want := range map[string]string{
		"connect-proxy:api": "secret", "connect-native:api": "secret", "connect-ingress:api": "secret",
		"connect-proxy:none": "", "other:api": "", "": "",
	} {
		t.Run(kind, func(t *testing.T) {
			ch := make(chan login.Secret, 1)
			ch <- login.NewSecret("secret")
			c := newConsulTask(t, consulTokens{{"consul-service_api-http", ""}: ch}, &nomad.Task{Kind: nomad.TaskKind(kind)})
			resp, err := c.start(t.Context(), "consul_si_token")
			if err != nil || resp.Env != nil {
				t.Fatalf("Prestart() = %v, %v", resp.Env, err)
			}
			text, mode := c.file("si_token")
			switch {
			case want == "" && !strings.Contains(text, "no such file"):
				t.Errorf("file has %q", text)
			case want != "" && (text != want || mode != 0o440):
				t.Errorf("file has %q, mode %o, want %q, 440", text, mode, want)
			}
		})
	}
}

// TestConsulToken_NoConsul checks the error on a node without Consul.
func TestConsulToken_NoConsul(t *testing.T) {
	var none *token.Node
	for name, tokens := range map[string]taskhook.ConsulTokens{"no manager": nil, "no node": none.NewManager(token.Config{})} {
		c := newConsulTask(t, tokens, withConsul())
		_, err := c.start(t.Context(), "consul_task")
		var fault *taskhook.Fault
		if !errors.As(err, &fault) || fault.Type != nomad.TaskSetupFailure || !strings.Contains(err.Error(), "this client has no consul block") {
			t.Errorf("%s: Prestart() = %v", name, err)
		}
	}
}
