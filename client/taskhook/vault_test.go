package taskhook_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/client/vault/token"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// vaultTokens has the tokens of one task.
type vaultTokens struct {
	taskhook.VaultSecrets
	ch    chan token.Token
	ended []string
}

func (*vaultTokens) Enabled() bool                               { return true }
func (*vaultTokens) Confirm(context.Context, string) error       { return nil }
func (v *vaultTokens) Watch(string) (<-chan token.Token, func()) { return v.ch, func() {} }
func (*vaultTokens) Current(string) func() (string, string) {
	return func() (string, string) { return "", "" }
}
func (v *vaultTokens) EndTask(task string) { v.ended = append(v.ended, task) }
func vaultToken(secret string) token.Token { return token.Token{Secret: login.NewSecret(secret)} }
func withVault(v nomad.Vault) *nomad.Task {
	return &nomad.Task{Vault: &v}
}

// vaultControl records the calls of the hook. The environment is that of the task.
type vaultControl struct {
	taskhook.Control
	mu    sync.Mutex
	env   *taskenv.Builder
	calls []string
	fails error // what Restart and Signal return
}

func (c *vaultControl) add(text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, text)
	return c.fails
}

// all returns the calls so far.
func (c *vaultControl) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.calls, "; ")
}

func (c *vaultControl) Emit(e *nomad.TaskEvent)                   { _ = c.add("event: " + e.DisplayMessage) }
func (c *vaultControl) SetEnv(hook string, env map[string]string) { c.env.SetHook(hook, env) }
func (c *vaultControl) Restart(_ context.Context, e *nomad.TaskEvent) error {
	return c.add(e.Type + ": " + e.RestartReason)
}
func (c *vaultControl) Signal(e *nomad.TaskEvent, signal string) error {
	return c.add(e.Type + " " + signal + ": " + e.TaskSignalReason)
}
func (c *vaultControl) Kill(_ context.Context, e *nomad.TaskEvent) error {
	return c.add(fmt.Sprintf("kill, fails %t: %s", e.FailsTask, e.KillReason))
}

// vaultTask is a task with a vault block.
type vaultTask struct {
	*consulTask
	tokens  *vaultTokens
	control *vaultControl
	end     func() // of the current run
}

func newVaultTask(t *testing.T, task *nomad.Task) *vaultTask {
	t.Helper()
	v := &vaultTask{tokens: &vaultTokens{ch: make(chan token.Token, 1)}, control: &vaultControl{}, end: func() {}}
	v.control.env = taskenv.New(taskenv.Subject{Node: &nomad.Node{}, Alloc: &nomad.Allocation{}, Task: task})
	v.consulTask = newTokenTask(t, taskhook.Config{Task: task, Control: v.control, VaultTokens: v.tokens})
	t.Cleanup(func() { v.end() })
	return v
}

// run starts the task as the loop does, or attaches to it. The returned function reports that the process has started.
func (v *vaultTask) run(t *testing.T, running bool) (started func()) {
	t.Helper()
	v.request.Running = running
	resp, err := v.start(t.Context(), "vault")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Below {
		v.control.env.SetBelow("vault")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { resp.Background(ctx) })
	v.end = sync.OnceFunc(func() { cancel(); work.Wait() })
	env := v.control.env.Build()
	return func() {
		t.Helper()
		req := &taskhook.TaskPoststartRequest{Env: env, Task: v.request.Task}
		if err := v.hooks["vault"].(taskhook.TaskPoststartHook).Poststart(t.Context(), req, &taskhook.TaskPoststartResponse{}); err != nil {
			t.Fatal(err)
		}
	}
}

// await waits until the environment of the next start has a token, and the hook has the given calls.
func (v *vaultTask) await(t *testing.T, secret, calls string) {
	t.Helper()
	testpace.Until(t, fmt.Sprintf("token %q and calls %q", secret, calls), func() bool {
		return v.control.env.Build().Var("VAULT_TOKEN") == secret && v.control.all() == calls
	})
}

// seen waits until the private directory has the hash of a token, that of the process.
func (v *vaultTask) seen(t *testing.T, secret string) {
	t.Helper()
	testpace.Until(t, "the hash of "+secret, func() bool {
		text, err := os.ReadFile(filepath.Join(v.dir.Path(), "private", "vault_token.sha256"))
		return err == nil && string(text) == fmt.Sprintf("%x", sha256.Sum256([]byte(secret)))
	})
}

const acquired = "Vault: new Vault token acquired"

// TestVault_Start checks the file and the environment of a start.
func TestVault_Start(t *testing.T) {
	for name, tc := range map[string]struct {
		block     nomad.Vault
		namespace string
		own       map[string]string // the env block of the task
		file      bool
		env       map[string]string
	}{
		"file and env": {nomad.Vault{Env: true}, "", nil, true, map[string]string{"VAULT_TOKEN": "s", "VAULT_NAMESPACE": "", "VAULT_ADDR": ""}},
		"no env":       {nomad.Vault{}, "ns", nil, true, map[string]string{"VAULT_TOKEN": "", "VAULT_NAMESPACE": ""}},
		"no file":      {nomad.Vault{Env: true, DisableFile: true}, "ns", nil, false, map[string]string{"VAULT_TOKEN": "s", "VAULT_NAMESPACE": "ns"}},
		"the job's own": {nomad.Vault{Env: true}, "ns", map[string]string{"VAULT_TOKEN": "mine", "COPY": "${VAULT_TOKEN}/${VAULT_NAMESPACE}"}, true,
			map[string]string{"VAULT_TOKEN": "mine", "COPY": "s/ns", "VAULT_NAMESPACE": "ns"}},
	} {
		t.Run(name, func(t *testing.T) {
			task := withVault(tc.block)
			task.Env = tc.own
			v := newVaultTask(t, task)
			first := vaultToken("s")
			first.Namespace = tc.namespace
			v.tokens.ch <- first
			v.run(t, false)
			text, mode := v.file("vault_token")
			if tc.file && (text != "s" || mode != 0o640) || !tc.file && !strings.Contains(text, "no such file") {
				t.Errorf("the file has %q, mode %o", text, mode)
			}
			env := v.control.env.Build()
			for name, want := range tc.env {
				if got := env.Var(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
		})
	}
}

// TestVault_NewLogin checks what follows a new login while the task runs.
func TestVault_NewLogin(t *testing.T) {
	for name, tc := range map[string]struct {
		mode, signal string
		fails        error
		calls        string // after one login
		seen         bool   // the hash of the new token is kept
	}{
		"restart":            {"restart", "", nil, "Restart Signaled: " + acquired, true},
		"signal":             {"signal", "SIGUSR1", nil, "Signaling SIGUSR1: " + acquired, true},
		"noop":               {"noop", "", nil, "", true},
		"restart, not alive": {"restart", "", taskhook.ErrNotRunning, "Restart Signaled: " + acquired, false},
		"signal fails": {"signal", "SIGNO", errors.New("x"),
			"Signaling SIGNO: " + acquired + "; kill, fails true: " + acquired + ", but signal SIGNO could not be sent", false},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVaultTask(t, withVault(nomad.Vault{Env: true, ChangeMode: tc.mode, ChangeSignal: tc.signal}))
			v.control.fails = tc.fails
			v.tokens.ch <- vaultToken("one")
			v.run(t, false)()
			v.tokens.ch <- vaultToken("one") // the same
			v.tokens.ch <- vaultToken("two") // received: the one before was
			v.await(t, "two", tc.calls)
			if text, mode := v.file("vault_token"); text != "two" || mode != 0o640 {
				t.Errorf("the file has %q, mode %o", text, mode)
			}
			if tc.seen {
				v.seen(t, "two")
				return
			}
			v.end()
			v.seen(t, "one")
		})
	}
}

// TestVault_Attach checks the change mode of an agent that attaches to a running process: once, and only if its token is another.
func TestVault_Attach(t *testing.T) {
	const restart = "Restart Signaled: " + acquired
	for name, tc := range map[string]struct{ now, calls string }{
		"the same token":                  {"one", ""},
		"a login while no agent ran":      {"two", restart},
		"the next agent after that login": {"two two", restart},
		"no token yet":                    {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVaultTask(t, withVault(nomad.Vault{Env: true, ChangeMode: "restart"}))
			v.tokens.ch <- vaultToken("one")
			v.run(t, false)()
			v.end()
			calls := tc.calls
			for now := range strings.SplitSeq(tc.now, " ") {
				if now == "" {
					v.run(t, true)()
					v.end()
					v.await(t, "one", "")
					continue
				}
				v.tokens.ch <- vaultToken(now)
				v.run(t, true)()
				v.await(t, now, calls)
				v.seen(t, now)
				v.end()
			}
		})
	}
}

// TestVault_OtherVariable checks that a variable VAULT_TOKEN that is not the token of the block does not cause a change mode.
func TestVault_OtherVariable(t *testing.T) {
	for name, set := range map[string]func(*vaultTask){
		"template":         func(v *vaultTask) { v.control.env.SetHook("template", map[string]string{"VAULT_TOKEN": "mine"}) },
		"interpolated key": func(v *vaultTask) { v.request.Task.Env = map[string]string{"${VAULT_NAMESPACE}_TOKEN": "mine"} },
	} {
		t.Run(name, func(t *testing.T) {
			v := newVaultTask(t, withVault(nomad.Vault{Env: true, ChangeMode: "restart"}))
			set(v)
			give := func(secret string) {
				next := vaultToken(secret)
				next.Namespace = "VAULT"
				v.tokens.ch <- next
			}
			for range 3 { // each restart is another start with the same variable
				give("one")
				v.run(t, false)()
				give("one")
				give("one") // received: the one before was
				v.await(t, "mine", "")
				v.end()
				v.seen(t, "one")
				select {
				case <-v.tokens.ch:
				default:
				}
			}
			give("two")
			v.run(t, true)()
			v.await(t, "mine", "Restart Signaled: "+acquired)
			v.seen(t, "two")
		})
	}
}

// TestVault_Unwritable checks that a token whose file cannot be written is not delivered until it is, with one event.
func TestVault_Unwritable(t *testing.T) {
	v := newVaultTask(t, withVault(nomad.Vault{Env: true, ChangeMode: "restart"}))
	synctest.Test(t, func(t *testing.T) {
		v.tokens.ch = make(chan token.Token, 1)
		v.tokens.ch <- vaultToken("one")
		v.run(t, false)()
		defer v.end()
		synctest.Wait()
		file := filepath.Join(v.dir.SecretsPath(), "vault_token")
		for _, err := range []error{os.Remove(file), os.Mkdir(file, 0o700)} { // nothing can replace a directory
			if err != nil {
				t.Fatal(err)
			}
		}
		v.tokens.ch <- vaultToken("two")
		time.Sleep(time.Hour)
		calls := v.control.all()
		const event = "event: The new token of Vault cannot be written, and the task keeps the older one: write the token of Vault: "
		if !strings.HasPrefix(calls, event) || strings.Count(calls, "event: ") != 1 || !strings.HasSuffix(calls, ". It is tried again") ||
			v.control.env.Build().Var("VAULT_TOKEN") != "one" {
			t.Errorf("calls %q, token %q", calls, v.control.env.Build().Var("VAULT_TOKEN"))
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, want := v.control.all(), calls+"; Restart Signaled: "+acquired; got != want || v.control.env.Build().Var("VAULT_TOKEN") != "two" {
			t.Errorf("calls %q, want %q", got, want)
		}
		if text, mode := v.file("vault_token"); text != "two" || mode != 0o640 {
			t.Errorf("the file has %q, mode %o", text, mode)
		}
	})
	v.seen(t, "two")
}

// TestVault_LoginDuringStart checks that a process whose environment has an older token gets the change mode when it runs.
func TestVault_LoginDuringStart(t *testing.T) {
	v := newVaultTask(t, withVault(nomad.Vault{Env: true, ChangeMode: "signal", ChangeSignal: "SIGHUP"}))
	v.tokens.ch <- vaultToken("one")
	started := v.run(t, false)
	v.tokens.ch <- vaultToken("two")
	v.await(t, "two", "") // the process does not run
	started()
	v.await(t, "two", "Signaling SIGHUP: "+acquired)
	v.seen(t, "two")
}

// TestVault_Stopping checks that a process that is being stopped gets the file, but no change mode.
func TestVault_Stopping(t *testing.T) {
	v := newVaultTask(t, withVault(nomad.Vault{Env: true, ChangeMode: "signal", ChangeSignal: "SIGHUP"}))
	v.tokens.ch <- vaultToken("one")
	v.run(t, false)()
	v.seen(t, "one")
	if err := v.hooks["vault"].(taskhook.TaskPreKillHook).PreKill(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	v.tokens.ch <- vaultToken("two")
	v.await(t, "two", "")
	v.end()
	v.await(t, "two", "")
	v.seen(t, "one")
	v.tokens.ch <- vaultToken("two") // the next start
	v.run(t, false)()
	v.tokens.ch <- vaultToken("three")
	v.await(t, "three", "Signaling SIGHUP: "+acquired)
}

// TestVault_Waits checks that a start waits until it is cancelled, with an event after three seconds.
func TestVault_Waits(t *testing.T) {
	v := newVaultTask(t, withVault(nomad.Vault{Env: true}))
	synctest.Test(t, func(t *testing.T) {
		const want = "event: Waiting for a token of Vault: the task starts after its login"
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		v.tokens.ch = make(chan token.Token)
		start := time.Now()
		go func() {
			time.Sleep(2 * time.Second)
			if got := v.control.all(); got != "" {
				t.Errorf("calls %q after two seconds", got)
			}
		}()
		if _, err := v.start(ctx, "vault"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Prestart() = %v after the kill", err)
		}
		if got := v.control.all(); got != want || time.Since(start) != time.Hour {
			t.Errorf("calls %q, want %q", got, want)
		}
		go func() {
			time.Sleep(2 * time.Second)
			v.tokens.ch <- vaultToken("s")
		}()
		if _, err := v.start(t.Context(), "vault"); err != nil || v.control.all() != want {
			t.Errorf("Prestart() = %v, calls %q", err, v.control.all())
		}
	})
}

// TestVault_Without checks tasks without a vault block, and clients without Vault.
func TestVault_Without(t *testing.T) {
	v := newVaultTask(t, &nomad.Task{})
	if resp, err := v.start(t.Context(), "vault"); err != nil || resp.Background != nil || resp.Env != nil {
		t.Errorf("Prestart() without a block = %v, %+v", err, resp)
	}
	if text, _ := v.file("vault_token"); !strings.Contains(text, "no such file") {
		t.Errorf("a task without a block has a file with %q", text)
	}
	var none *token.Node
	for name, tokens := range map[string]taskhook.VaultTokens{"no manager": nil, "no node": none.NewManager(token.Config{})} {
		c := newTokenTask(t, taskhook.Config{Task: withVault(nomad.Vault{}), VaultTokens: tokens})
		_, err := c.start(t.Context(), "vault")
		var fault *taskhook.Fault
		if !errors.As(err, &fault) || fault.Type != nomad.TaskSetupFailure || !strings.Contains(err.Error(), "this client has no enabled vault block") {
			t.Errorf("%s: Prestart() = %v", name, err)
		}
	}
}

// TestVault_End checks that the token of a dead task is revoked, and that a task without a block has none.
func TestVault_End(t *testing.T) {
	for name, tc := range map[string]struct {
		task *nomad.Task
		want []string
	}{"vault": {withVault(nomad.Vault{}), []string{"web"}}, "none": {&nomad.Task{}, nil}} {
		v := newVaultTask(t, tc.task)
		if err := v.hooks["vault"].(taskhook.TaskStopHook).Stop(t.Context(), &taskhook.TaskStopRequest{}, nil); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(v.tokens.ended, tc.want) {
			t.Errorf("%s: ended %q, want %q", name, v.tokens.ended, tc.want)
		}
	}
}
