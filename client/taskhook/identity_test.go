package taskhook_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// stream has one named identity, whose tokens come through a channel.
type stream struct {
	tokens
	ch chan idtoken.Token
}

func (s stream) Watch(message.WIHandle) (<-chan idtoken.Token, func()) { return s.ch, func() {} }

// changes records the restarts of a task and the variables of a hook.
type changes struct {
	taskhook.Control
	restarts chan struct{}

	mu  sync.Mutex
	env map[string]string
}

func (c *changes) SetEnv(_ string, env map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.env = env
}

func (c *changes) Restart(context.Context, *nomad.TaskEvent) error {
	c.restarts <- struct{}{}
	return nil
}

func (c *changes) variable(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.env[name]
}

// A token that arrives while artifacts are downloaded is delivered before the task starts, and is not a change.
func TestTokenOfTheDownload(t *testing.T) {
	root := filepath.Join(t.TempDir(), "alloc")
	alloc, err := allocdir.Build(root, "a1")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := alloc.BuildTask(allocdir.TaskConfig{Name: "web", UID: -1, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dir.Close()
		if err := alloc.Destroy(); err != nil {
			t.Error(err)
		}
	})
	task := &nomad.Task{Name: "web",
		Identities: []*nomad.WorkloadIdentity{{Name: "aws", Env: true, File: true, ChangeMode: nomad.WIChangeModeRestart}}}
	ids, control := stream{ch: make(chan idtoken.Token, 1)}, &changes{restarts: make(chan struct{}, 9)}
	cfg := taskhook.Config{Task: task, Dir: alloc, Control: control, Identities: ids, Log: slog.New(slog.DiscardHandler),
		Alloc: &nomad.Allocation{ID: "a1", Job: &nomad.Job{}}}
	hooks := map[string]hook.Hook{}
	for _, h := range taskhook.Order(cfg) {
		hooks[h.Name()] = h
	}
	env := taskenv.New(taskenv.Subject{Node: &nomad.Node{}, Alloc: cfg.Alloc, Task: task}).Build()
	prestart := func(name string) func(context.Context) {
		t.Helper()
		resp := &taskhook.TaskPrestartResponse{}
		if err := hooks[name].(taskhook.TaskPrestartHook).Prestart(t.Context(),
			&taskhook.TaskPrestartRequest{Alloc: cfg.Alloc, Task: task, Dir: dir, Env: env}, resp); err != nil {
			t.Fatal(err)
		}
		return resp.Background
	}
	file := func() string {
		text, err := os.ReadFile(filepath.Join(dir.SecretsPath(), "nomad_aws.jwt"))
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	ids.ch <- idtoken.New("first", "")
	prestart("identity")
	if got := file(); got != "first" {
		t.Fatalf("the file has %q, want the first token", got)
	}
	ids.ch <- idtoken.New("second", "")
	follow := prestart("identity_renewal")
	if got, variable := file(), control.variable("NOMAD_TOKEN_aws"); got != "second" || variable != "second" {
		t.Errorf("the file has %q and the variable %q, want the second token", got, variable)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { follow(ctx) })
	ids.ch <- idtoken.New("third", "")
	<-control.restarts
	cancel()
	done.Wait()
	if got, variable := file(), control.variable("NOMAD_TOKEN_aws"); got != "third" || variable != "third" || len(control.restarts) > 0 {
		t.Errorf("the file has %q and the variable %q, %d more restarts, want the third token and none", got, variable, len(control.restarts))
	}
}
