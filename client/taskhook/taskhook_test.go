package taskhook_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golang/snappy"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// pool has one uid: the test's own, so that files can be given to it.
type pool struct{ lent, claimed []string }

func (p *pool) Assign(owner string) (int, error) {
	p.lent = append(p.lent, owner)
	return 80001, nil
}

func (p *pool) Claim(_ int, owner string) error {
	p.claimed = append(p.claimed, owner)
	return nil
}

func (*pool) Contains(uid int) bool { return uid >= 80000 && uid <= 89999 }

// tokens has only a default token.
type tokens struct{}

func (tokens) Default(string) idtoken.Token { return idtoken.New("default-token", "k") }

func (tokens) Watch(message.WIHandle) (<-chan idtoken.Token, func()) { return nil, func() {} }

func (tokens) Downloaded(context.Context, string, map[string]string) error { return nil }

// events records the messages of emitted events. Its other Control methods do nothing.
type events struct {
	taskhook.Control
	messages []string
}

func (e *events) Emit(ev *nomad.TaskEvent) {
	e.messages = append(e.messages, ev.Type+": "+ev.Message)
}

// given is the result of the hooks for one start.
type given struct {
	env   *taskenv.Env
	owner taskhook.Owner
	dir   *allocdir.Task
	log   drivers.LogConfig
	state map[string]map[string]string

	mounts  []drivers.Mount
	files   []drivers.HostFile
	devices []drivers.Device
	dns     *drivers.DNS

	messages []string // of further events
}

// prestart calls the hooks as the loop does, without their Background functions.
func prestart(t *testing.T, cfg taskhook.Config, state map[string]map[string]string) (given, error) {
	t.Helper()
	return prestartIn(t, cfg, state, func(string) {})
}

// prestartIn is prestart in an existing allocation directory.
func prestartIn(t *testing.T, cfg taskhook.Config, state map[string]map[string]string, prepare func(alloc string)) (given, error) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "alloc")
	dir, err := allocdir.Build(root, cfg.Alloc.ID)
	if err != nil {
		t.Fatal(err)
	}
	prepare(dir.Path())
	cfg.Dir, cfg.Identities, cfg.Log = dir, tokens{}, slog.New(slog.DiscardHandler)
	emitted := &events{}
	cfg.Control = emitted
	env := taskenv.New(taskenv.Subject{Node: &nomad.Node{}, Alloc: cfg.Alloc, Task: cfg.Task})
	got := given{owner: taskhook.Owner{UID: -1, GID: -1}, state: map[string]map[string]string{}}
	t.Cleanup(func() {
		if got.dir != nil {
			got.dir.Close()
		}
		if err := dir.Destroy(); err != nil {
			t.Error(err)
		}
	})
	for _, hook := range taskhook.Order(cfg) {
		h, ok := hook.(taskhook.TaskPrestartHook)
		if !ok {
			continue
		}
		resp := &taskhook.TaskPrestartResponse{}
		err := h.Prestart(t.Context(), &taskhook.TaskPrestartRequest{
			PreviousState: state[h.Name()], Alloc: cfg.Alloc, Task: cfg.Task, NomadToken: tokens{}.Default(""),
			Owner: got.owner, Dir: got.dir, Env: env.Build(), Network: cfg.Alloc.NetworkStatus,
		}, resp)
		if err != nil {
			return got, err
		}
		got.take(h.Name(), resp, env)
	}
	got.messages = emitted.messages[:0:0]
	const setup = "Task Setup: Building Task Directory"
	for _, m := range emitted.messages {
		if m != setup {
			got.messages = append(got.messages, m)
		}
	}
	if len(emitted.messages) != len(got.messages)+1 || len(got.messages) > 0 && cfg.DNS == nil {
		t.Errorf("the hooks emit %q, want %q", emitted.messages, setup)
	}
	got.env = env.Build()
	return got, nil
}

func (g *given) take(hook string, resp *taskhook.TaskPrestartResponse, env *taskenv.Builder) {
	if resp.DNS != nil {
		g.dns = resp.DNS
	}
	if resp.Dir != nil {
		g.dir = resp.Dir
	}
	if resp.Paths != nil {
		env.SetPaths(*resp.Paths)
	}
	if resp.Owner != nil {
		g.owner = *resp.Owner
	}
	if resp.Log != nil {
		g.log = *resp.Log
	}
	g.state[hook] = resp.State
	g.mounts, g.files = append(g.mounts, resp.Mounts...), append(g.files, resp.Files...)
	g.devices = append(g.devices, resp.Devices...)
	env.SetHook(hook, resp.Env)
	env.SetHost(hook, resp.HostEnv)
}

func config(task *nomad.Task) taskhook.Config {
	task.Name = "web"
	return taskhook.Config{
		Deps: taskhook.Deps{Users: &pool{}, HostEnv: map[string]string{"HOST": "x"}}, Task: task,
		Alloc: &nomad.Allocation{ID: "a1", JobID: "j", Job: &nomad.Job{}},
	}
}

func TestHooksAreNamed(t *testing.T) {
	var names []string
	for _, h := range taskhook.Order(taskhook.Config{Alloc: &nomad.Allocation{}, Task: &nomad.Task{}, Log: slog.New(slog.DiscardHandler)}) {
		names = append(names, h.Name())
	}
	if slices.Contains(names, "") || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
		t.Errorf("names = %q, want each once", names)
	}
}

func TestDefaultToken(t *testing.T) {
	for _, tc := range []struct {
		name      string
		isolation drivers.FSIsolation
		secrets   string
		host      bool
	}{
		{"host paths", drivers.FSIsolationNone, "", true},
		{"unveil", drivers.FSIsolationUnveil, "", false},
		{"chroot", drivers.FSIsolationChroot, "/secrets", true},
		{"image", drivers.FSIsolationImage, "/secrets", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := config(&nomad.Task{Identity: &nomad.WorkloadIdentity{Name: "default", Env: true, File: true}})
			cfg.Capabilities.FSIsolation = tc.isolation
			got, err := prestart(t, cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			secrets := tc.secrets
			if secrets == "" {
				secrets = got.dir.SecretsPath()
			}
			for name, want := range map[string]string{
				"NOMAD_TOKEN": "default-token", "NOMAD_SECRETS_DIR": secrets,
				"NOMAD_UNIX_ADDR": "unix://" + secrets + "/api.sock", "HOST": map[bool]string{true: "x"}[tc.host],
			} {
				if have := got.env.Var(name); have != want {
					t.Errorf("%s = %q, want %q", name, have, want)
				}
			}
			if b, err := got.dir.Secrets().ReadFile("nomad_token", 100); err != nil || string(b) != "default-token" {
				t.Errorf("token file = %q, %v", b, err)
			}
		})
	}
}

func TestNoTokenByDefault(t *testing.T) {
	got, err := prestart(t, config(&nomad.Task{Identity: &nomad.WorkloadIdentity{Name: "default"}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range got.env.Map() {
		if strings.Contains(value, "default-token") || name == "NOMAD_UNIX_ADDR" {
			t.Errorf("%s is set", name)
		}
	}
	if names, _ := os.ReadDir(got.dir.SecretsPath()); slices.ContainsFunc(names,
		func(e os.DirEntry) bool { return e.Name() != ".nomad-mount" }) {
		t.Errorf("secrets contain %v", names)
	}
}

func TestDynamicUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: to change owners of files")
	}
	users := &pool{}
	cfg := config(&nomad.Task{})
	cfg.Users, cfg.Capabilities = users, drivers.Capabilities{DynamicWorkloadUsers: true, FSIsolation: drivers.FSIsolationUnveil}
	got, err := prestart(t, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := (taskhook.Owner{User: "nomad-80001", UID: 80001, GID: 80001}); got.owner != want {
		t.Errorf("owner = %+v, want %+v", got.owner, want)
	}
	if uid, ok := taskhook.AssignedUID(got.state["user"]); !ok || uid != 80001 {
		t.Errorf("AssignedUID() = %d, %t of the stored state", uid, ok)
	}
	if _, err := prestart(t, cfg, got.state); err != nil {
		t.Fatal(err)
	}
	if len(users.lent) != 1 || len(users.claimed) != 1 {
		t.Errorf("assigned %d times, claimed %d times; want the same uid again after a restart", len(users.lent), len(users.claimed))
	}
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		task nomad.Task
		want string
	}{
		{"signal", nomad.Task{KillSignal: "SIGNOPE"}, `"SIGNOPE"`},
		{"change signal", nomad.Task{Identities: []*nomad.WorkloadIdentity{{Name: "a", ChangeMode: "signal"}}}, "change_signal"},
		{"signal of vault", nomad.Task{Vault: &nomad.Vault{ChangeMode: "signal", ChangeSignal: "SIGNOPE"}}, `vault: change_signal: `},
		{"another vault", nomad.Task{Vault: &nomad.Vault{Cluster: "other"}}, `log in to cluster "default" only, not to "other"`},
		{"logs", nomad.Task{LogConfig: &nomad.LogConfig{MaxFiles: 0, MaxFileSizeMB: 1}}, "max_files"},
		{"user", nomad.Task{User: "no-such-user"}, "no-such-user"},
		{"lent user", nomad.Task{User: "nomad-80007"}, "nomad-80007"},
		{"lent uid", nomad.Task{User: "80007"}, "80007"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := prestart(t, config(&tc.task), nil)
			var fault *taskhook.Fault
			if !errors.As(err, &fault) || fault.Type != nomad.TaskFailedValidation || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want a failed validation that names %s", err, tc.want)
			}
		})
	}
	for _, name := range []string{"", "alloc", ".", "..", "secrets", "private", "a/b", "a\x00b"} {
		cfg := config(&nomad.Task{})
		cfg.Task.Name = name
		if _, err := prestart(t, cfg, nil); err == nil {
			t.Errorf("a task named %q was prepared", name)
		}
	}
}

func TestLogs(t *testing.T) {
	for _, tc := range []struct {
		in   *nomad.LogConfig
		want drivers.LogConfig
	}{
		{nil, drivers.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}},
		{&nomad.LogConfig{MaxFiles: 2, MaxFileSizeMB: 3}, drivers.LogConfig{MaxFiles: 2, MaxFileSizeMB: 3}},
		{&nomad.LogConfig{MaxFiles: 2, MaxFileSizeMB: 3, Disabled: true}, drivers.LogConfig{MaxFiles: 2, MaxFileSizeMB: 3, Disabled: true}},
	} {
		got, err := prestart(t, config(&nomad.Task{LogConfig: tc.in}), nil)
		if err != nil || got.log != tc.want {
			t.Errorf("logs of %+v = %+v, %v; want %+v", tc.in, got.log, err, tc.want)
		}
	}
}

func TestDispatchPayload(t *testing.T) {
	for _, tc := range []struct{ file, where string }{
		{"in.json", "in.json"}, {"deep/er/in.json", "deep/er/in.json"},
		{"../../../in.json", "in.json"}, {"/etc/in.json", "etc/in.json"},
	} {
		t.Run(tc.file, func(t *testing.T) {
			cfg := config(&nomad.Task{DispatchPayload: &nomad.DispatchPayloadConfig{File: tc.file}})
			cfg.Alloc.Job.Payload = snappy.Encode(nil, []byte("hello payload"))
			got, err := prestart(t, cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(got.dir.LocalPath(), tc.where))
			if err != nil || string(b) != "hello payload" {
				t.Errorf("payload = %q, %v", b, err)
			}
		})
	}
	cfg := config(&nomad.Task{DispatchPayload: &nomad.DispatchPayloadConfig{File: "x"}})
	cfg.Alloc.Job.Payload = []byte("\xff\xff\xff\xff\xff not snappy")
	if _, err := prestart(t, cfg, nil); err == nil {
		t.Error("a broken payload was accepted")
	}
}
