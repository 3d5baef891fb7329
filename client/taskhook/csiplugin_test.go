package taskhook

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/client/csi/instances"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// registry is a list of instances.
type registry struct {
	mu   sync.Mutex
	list []instances.Instance
	err  error // of Register
}

func (r *registry) Register(i instances.Instance) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.list = append(r.list, i)
	}
	return r.err
}

func (r *registry) Deregister(kind instances.Kind, id, alloc string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(i instances.Instance) bool { return i.Kind == kind && i.ID == id && i.AllocID == alloc })
	return nil
}

func (r *registry) Has(kind instances.Kind, id, alloc string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.list, func(i instances.Instance) bool { return i.Kind == kind && i.ID == id && i.AllocID == alloc })
}

// kinds returns the kinds of all instances.
func (r *registry) kinds() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.list {
		out = append(out, string(i.Kind))
	}
	return out
}

// steered is a Control that records events and restarts.
type steered struct {
	Control
	mu       sync.Mutex
	events   []string
	restarts []string
}

func (s *steered) Emit(e *nomad.TaskEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e.Type+": "+e.Message)
}

func (s *steered) RestartFailed(_ context.Context, e *nomad.TaskEvent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restarts = append(s.restarts, e.RestartReason)
	return nil
}

// fakePlugin answers probes.
type fakePlugin struct {
	from time.Time    // when it is ready
	err  func() error // of Probe; nil: it does not fail
	info csi.Info
	fail error // of Info
}

func (p *fakePlugin) Probe(context.Context) (bool, error) {
	if p.err != nil {
		if err := p.err(); err != nil {
			return false, err
		}
	}
	return !time.Now().Before(p.from), nil
}

func (p *fakePlugin) Info(context.Context) (csi.Info, error) {
	return p.info, p.fail
}
func (*fakePlugin) Close() error { return nil }

// supervised is the hook of a plugin, with what it calls.
type supervised struct {
	*csiPluginHook
	registry *registry
	control  *steered
	plugin   *fakePlugin
	missing  bool // nobody listens on the socket
}

func newSupervised(kind nomad.CSIPluginType) *supervised {
	s := &supervised{registry: &registry{}, control: &steered{}, plugin: &fakePlugin{info: csi.Info{Name: "disk.example", Version: "3"}}}
	s.csiPluginHook = &csiPluginHook{deps: &CSI{Dir: "/s/csi", Plugins: s.registry}, alloc: &nomad.Allocation{ID: "a1"},
		config: &nomad.TaskCSIPluginConfig{ID: "disk", Type: kind}, control: s.control, log: slog.New(slog.DiscardHandler),
		taskRoot: "/local/csi"}
	s.dial = func(_ context.Context, sock csi.Socket) (pluginProbe, error) {
		if want := (csi.Socket{Dir: "/s/csi/plugins/a1", Name: "csi.sock"}); sock != want {
			return nil, errors.New("wrong socket " + sock.String())
		}
		if s.missing {
			return nil, os.ErrNotExist
		}
		return s.plugin, nil
	}
	return s
}

// run runs the background function of the hook for a time.
func (s *supervised) run(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	resp := &TaskPoststartResponse{}
	if err := s.Poststart(ctx, nil, resp); err != nil || resp.Background == nil {
		t.Fatalf("Poststart() = %v, background %t", err, resp.Background != nil)
	}
	resp.Background(ctx)
}

// A plugin of each type is registered for what it provides when it is ready, and deregistered when the task ends.
func TestCSIPlugin_Registers(t *testing.T) {
	for kind, want := range map[nomad.CSIPluginType][]string{
		"node": {"csi-node"}, "controller": {"csi-controller"}, "monolith": {"csi-controller", "csi-node"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSupervised(kind)
			s.plugin.from = time.Now().Add(7 * time.Second)
			s.run(t, time.Minute)
			if got := s.registry.kinds(); !slices.Equal(got, want) {
				t.Errorf("%s: registered as %q, want %q", kind, got, want)
			}
			i := s.registry.list[0]
			if i.ID != "disk" || i.AllocID != "a1" || i.Provider != "disk.example" || i.Version != "3" ||
				i.Socket != (csi.Socket{Dir: "/s/csi/plugins/a1", Name: "csi.sock"}) || i.Root != "/s/csi/"+string(kind)+"/disk" ||
				i.TaskRoot != "/local/csi" {
				t.Errorf("%s: registered %+v", kind, i)
			}
			if want := []string{"Plugin became healthy: plugin: disk"}; !slices.Equal(s.control.events, want) || s.control.restarts != nil {
				t.Errorf("%s: events %q and restarts %q, want %q", kind, s.control.events, s.control.restarts, want)
			}
			if err := s.Exited(t.Context(), nil, nil); err != nil || s.registry.kinds() != nil {
				t.Errorf("%s: Exited() = %v, registered as %q", kind, err, s.registry.kinds())
			}
		})
	}
}

// The registration of a plugin contains whether the plugin has the power of root on the node.
func TestCSIPlugin_Privileged(t *testing.T) {
	for name, c := range map[string]struct {
		isolation  drivers.FSIsolation
		privileged bool
		want       bool
	}{
		"a container":            {drivers.FSIsolationImage, false, false},
		"a privileged container": {drivers.FSIsolationImage, true, true},
		"a process of the node":  {drivers.FSIsolationNone, false, true},
	} {
		s := newSupervised("node")
		hook := newCSIPluginHook(Config{Deps: Deps{CSI: s.deps}, Alloc: s.alloc, Capabilities: drivers.Capabilities{FSIsolation: c.isolation},
			Task: &nomad.Task{CSIPluginConfig: s.config, Privileged: c.privileged}}).(*csiPluginHook)
		if err := hook.register(csi.Info{Name: "disk.example"}); err != nil {
			t.Fatal(err)
		}
		if got := s.registry.list[0].Privileged; got != c.want {
			t.Errorf("%s: Privileged = %t, want %t", name, got, c.want)
		}
	}
}

// A plugin that does not become healthy, or does not describe itself, is restarted as after a failure.
func TestCSIPlugin_Restarts(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(s *supervised)
		event   string // the only one
		restart string
	}{
		"no socket": {func(s *supervised) { s.missing = true },
			"Plugin became unhealthy: Error: CSI plugin failed probe: file does not exist",
			"CSI plugin did not become healthy before configured 30s health timeout"},
		"late": {func(s *supervised) {
			s.plugin.from, s.config.HealthTimeout = time.Now().Add(12*time.Second), 10*time.Second
		},
			"Plugin became unhealthy: Error: CSI plugin failed probe: the plugin is not ready",
			"CSI plugin did not become healthy before configured 10s health timeout"},
		"failing": {func(s *supervised) { s.plugin.err = func() error { return errors.New("no disk") } },
			"Plugin became unhealthy: Error: CSI plugin failed probe: no disk",
			"CSI plugin did not become healthy before configured 30s health timeout"},
		"no name": {func(s *supervised) { s.plugin.info.Name = "" }, "",
			"CSI plugin failed to register: failed to probe plugin: the name of the plugin is empty"},
		"no description": {func(s *supervised) { s.plugin.fail = errors.New("x") }, "",
			"CSI plugin failed to register: failed to probe plugin: x"},
		"not stored": {func(s *supervised) { s.registry.err = errors.New("disk full") }, "", "CSI plugin failed to register: disk full"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSupervised("node")
			c.edit(s)
			s.run(t, 5*time.Minute)
			events := strings.Join(s.control.events, "\n")
			if restarts := strings.Join(s.control.restarts, "\n"); events != c.event || restarts != c.restart || s.registry.kinds() != nil {
				t.Errorf("%s: events %q and restarts %q, want %q and %q", name, events, restarts, c.event, c.restart)
			}
		})
	}
}

// A registered plugin is probed every 30 seconds. Only changes emit events, and nothing restarts it.
func TestCSIPlugin_Health(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised("node")
		start, schedule := time.Now(), []error{nil, errors.New("a"), errors.New("b"), nil, nil, errors.New("c")}
		s.plugin.err = func() error { return schedule[min(int(time.Since(start)/(100*time.Second)), len(schedule)-1)] }
		s.run(t, 10*time.Minute)
		want := []string{"Plugin became healthy: plugin: disk", "Plugin became unhealthy: Error: a", "Plugin became healthy: plugin: disk",
			"Plugin became unhealthy: Error: c"}
		if !slices.Equal(s.control.events, want) || s.control.restarts != nil || len(s.registry.kinds()) != 1 {
			t.Errorf("events %q, restarts %q, registered as %q; want %q", s.control.events, s.control.restarts, s.registry.kinds(), want)
		}
	})
}

// After a restart of the agent, a registered plugin emits no event, and is not restarted if it does not answer.
func TestCSIPlugin_AgentRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised("monolith")
		s.run(t, time.Minute)
		next := newSupervised("monolith")
		next.registry.list, next.missing = s.registry.list, true
		next.run(t, time.Minute)
		if want := []string{"Plugin became unhealthy: Error: file does not exist"}; !slices.Equal(next.control.events, want) ||
			next.control.restarts != nil || len(next.registry.kinds()) != 2 {
			t.Errorf("events %q, restarts %q, registered as %q; want %q", next.control.events, next.control.restarts, next.registry.kinds(), want)
		}
	})
}

// prepared returns what Prestart answers for a plugin of a driver. The state directory is real.
func prepared(t *testing.T, caps drivers.Capabilities, edit func(c *nomad.TaskCSIPluginConfig, req *TaskPrestartRequest)) (
	h *csiPluginHook, resp *TaskPrestartResponse, err error) {
	t.Helper()
	state, err := os.MkdirTemp("", "csi") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	dir, err := allocdir.Build(filepath.Join(state, "alloc"), "a1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dir.Destroy(); err != nil {
			t.Error(err)
		}
	})
	task := &nomad.Task{Name: "t", Driver: "d", CSIPluginConfig: &nomad.TaskCSIPluginConfig{ID: "disk", Type: "node"}}
	alloc := &nomad.Allocation{ID: "a1"}
	own, err := dir.BuildTask(allocdir.TaskConfig{Name: "t", UID: -1, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	req := &TaskPrestartRequest{Alloc: alloc, Task: task, Owner: Owner{UID: -1, GID: -1}, Dir: own,
		Env: taskenv.New(taskenv.Subject{Node: &nomad.Node{}, Alloc: alloc, Task: task}).Build()}
	edit(task.CSIPluginConfig, req)
	share := func(dir string) error { return os.MkdirAll(dir, 0o700) }
	h = newCSIPluginHook(Config{Deps: Deps{CSI: &CSI{Dir: filepath.Join(state, "csi"), Plugins: &registry{}, Share: share}}, Alloc: alloc, Task: task,
		Dir: dir, Capabilities: caps, Control: &steered{}, Log: slog.New(slog.DiscardHandler)}).(*csiPluginHook)
	resp = &TaskPrestartResponse{}
	return h, resp, h.Prestart(t.Context(), req, resp)
}

func TestCSIPlugin_Mounts(t *testing.T) {
	image := drivers.Capabilities{FSIsolation: drivers.FSIsolationImage, Mounts: true, Propagations: []string{drivers.PropagateBoth}}
	chroot := image
	chroot.FSIsolation = drivers.FSIsolationChroot
	unveil := drivers.Capabilities{FSIsolation: drivers.FSIsolationUnveil, Mounts: true}
	host := drivers.Capabilities{FSIsolation: drivers.FSIsolationNone}
	for name, tc := range map[string]struct {
		caps     drivers.Capabilities
		edit     func(c *nomad.TaskCSIPluginConfig, req *TaskPrestartRequest)
		mounts   []string // "task path, host path below the CSI directory, propagation"
		endpoint string   // without unix://; "$" is the CSI directory
		root     string   // the directory of volumes as the plugin sees it
		err      string
	}{
		"image": {image, nil, []string{"/csi plugins/a1 ", "/local/csi node/disk bidirectional", "/dev /dev "}, "/csi/csi.sock", "/local/csi", ""},
		"directories": {image, func(c *nomad.TaskCSIPluginConfig, _ *TaskPrestartRequest) {
			c.MountDir, c.StagePublishBaseDir, c.Type = "sock/", "/volumes", "monolith"
		}, []string{"/sock plugins/a1 ", "/volumes monolith/disk bidirectional", "/dev /dev "}, "/sock/csi.sock", "/volumes", ""},
		"controller": {image, func(c *nomad.TaskCSIPluginConfig, _ *TaskPrestartRequest) { c.Type = "controller" },
			[]string{"/csi plugins/a1 ", "/local/csi controller/disk "}, "/csi/csi.sock", "/local/csi", ""},
		"chroot":  {chroot, nil, []string{"/csi plugins/a1 ", "/local/csi node/disk bidirectional"}, "/csi/csi.sock", "/local/csi", ""},
		"no root": {host, nil, nil, "$/plugins/a1/csi.sock", "$/node/disk", ""},
		"unveil":  {unveil, nil, nil, "", "", `driver "d" cannot host CSI plugins of type node: use docker or raw_exec`},
		"unveil, controller": {unveil, func(c *nomad.TaskCSIPluginConfig, _ *TaskPrestartRequest) {
			c.Type, c.MountDir = "controller", "/tmp/csi"
		},
			[]string{"/tmp/csi plugins/a1 "}, "/tmp/csi/csi.sock", "/local/csi", ""},
		"unveil, default": {unveil, func(c *nomad.TaskCSIPluginConfig, _ *TaskPrestartRequest) { c.Type = "controller" }, nil, "", "",
			`with driver "d", use mount_dir = "/tmp/csi"`},
		"no mounts": {drivers.Capabilities{FSIsolation: drivers.FSIsolationImage}, nil, nil, "", "", "cannot host CSI plugins"},
		"own directory": {image, func(c *nomad.TaskCSIPluginConfig, _ *TaskPrestartRequest) { c.MountDir = "/secrets" }, nil, "", "",
			"mount_dir of csi_plugin: destination /secrets would hide the task's own directories"},
		"invalid": {image, func(c *nomad.TaskCSIPluginConfig, _ *TaskPrestartRequest) { c.ID = "../x" }, nil, "", "", "the name of a directory"},
		"long path": {image, func(c *nomad.TaskCSIPluginConfig, _ *TaskPrestartRequest) {
			c.MountDir = "/" + strings.Repeat("x", 100)
		}, nil, "",
			"", "has 110 bytes: the limit is 107"},
		"runs already": {image, func(_ *nomad.TaskCSIPluginConfig, req *TaskPrestartRequest) { req.Running = true }, nil, "/csi/csi.sock",
			"/local/csi", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.edit == nil {
				tc.edit = func(*nomad.TaskCSIPluginConfig, *TaskPrestartRequest) {}
			}
			h, resp, err := prepared(t, tc.caps, tc.edit)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("Prestart() = %v, want %q", err, tc.err)
			}
			if err != nil {
				return
			}
			dir := h.deps.Dir
			var got []string
			for _, m := range resp.Mounts {
				got = append(got, m.TaskPath+" "+strings.TrimPrefix(m.HostPath, dir+"/")+" "+m.Propagation)
				if m.ReadOnly {
					t.Errorf("the mount of %s is read-only", m.TaskPath)
				}
			}
			if !slices.Equal(got, tc.mounts) {
				t.Errorf("mounts %q, want %q", got, tc.mounts)
			}
			if got, want := resp.Env["CSI_ENDPOINT"], "unix://"+strings.ReplaceAll(tc.endpoint, "$", dir); got != want || !resp.Below {
				t.Errorf("CSI_ENDPOINT is %q, below the job's %t, want %q", got, resp.Below, want)
			}
			if want := strings.ReplaceAll(tc.root, "$", dir); h.taskRoot != want {
				t.Errorf("directory of volumes %q, want %q", h.taskRoot, want)
			}
		})
	}
}

// Prestart creates directories of the agent, and removes what an earlier start left at the name of the socket. Stop removes the
// directory of the socket only.
func TestCSIPlugin_Directories(t *testing.T) {
	host := drivers.Capabilities{FSIsolation: drivers.FSIsolationNone}
	h, _, err := prepared(t, host, func(*nomad.TaskCSIPluginConfig, *TaskPrestartRequest) {})
	if err != nil {
		t.Fatal(err)
	}
	sockets, volumes := filepath.Join(h.deps.Dir, "plugins", "a1"), filepath.Join(h.deps.Dir, "node", "disk")
	for _, dir := range []string{h.deps.Dir, filepath.Dir(sockets), sockets, filepath.Dir(volumes), volumes} {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v, want a directory with mode 0700", dir, info, err)
		}
	}
	outside := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(sockets, "csi.sock")
	for name, create := range map[string]func() error{
		"file":      func() error { return os.WriteFile(stale, nil, 0o600) },
		"link":      func() error { return os.Symlink(outside, stale) },
		"directory": func() error { return os.MkdirAll(filepath.Join(stale, "a", "b"), 0o700) },
	} {
		if err := create(); err != nil {
			t.Fatal(err)
		}
		if err := h.makeDirs(Owner{UID: -1, GID: -1}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(stale); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s at the name of the socket remains: %v", name, err)
		}
	}
	if err := os.Symlink(outside, stale); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.Stop(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(sockets); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of the socket remains: %v", err)
	}
	for _, kept := range []string{outside, volumes} {
		if _, err := os.Lstat(kept); err != nil {
			t.Errorf("%s was removed: %v", kept, err)
		}
	}
}

// A link instead of a directory is not followed.
func TestCSIPlugin_PlantedLink(t *testing.T) {
	host := drivers.Capabilities{FSIsolation: drivers.FSIsolationNone}
	h, _, err := prepared(t, host, func(*nomad.TaskCSIPluginConfig, *TaskPrestartRequest) {})
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	for _, dir := range []string{filepath.Join(h.deps.Dir, "plugins", "a1"), filepath.Join(h.deps.Dir, "node", "disk")} {
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, dir); err != nil {
			t.Fatal(err)
		}
		if err := h.makeDirs(Owner{UID: -1, GID: -1}); err == nil {
			t.Errorf("a link at %s is accepted", dir)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// A task without a plugin, and a node that runs none, need no hook. A plugin on such a node fails.
func TestCSIPlugin_None(t *testing.T) {
	h := newCSIPluginHook(Config{Alloc: &nomad.Allocation{ID: "a1"}, Task: &nomad.Task{}}).(*csiPluginHook)
	resp, post := &TaskPrestartResponse{}, &TaskPoststartResponse{}
	if err := errors.Join(h.Prestart(t.Context(), nil, resp), h.Poststart(t.Context(), nil, post), h.Exited(t.Context(), nil, nil),
		h.Stop(t.Context(), nil, nil)); err != nil || resp.Env != nil || post.Background != nil {
		t.Errorf("a task without a plugin: %v, %+v", err, resp)
	}
	h = newCSIPluginHook(Config{Alloc: &nomad.Allocation{ID: "a1"}, Task: &nomad.Task{
		CSIPluginConfig: &nomad.TaskCSIPluginConfig{ID: "p", Type: "node"}}}).(*csiPluginHook)
	err := h.Prestart(t.Context(), nil, resp)
	if fault, ok := errors.AsType[*Fault](err); !ok || fault.Type != nomad.TaskFailedValidation {
		t.Errorf("Prestart() = %v on a node without plugins, want a fault", err)
	}
	if err := errors.Join(h.Exited(t.Context(), nil, nil), h.Stop(t.Context(), nil, nil)); err != nil {
		t.Error(err)
	}
}

// A node plugin that ends waits for the volumes that are being unmounted, with a limit. One that is restarted does not.
func TestCSIPlugin_WaitsForVolumes(t *testing.T) {
	for name, c := range map[string]struct {
		kind  nomad.CSIPluginType
		final bool
		busy  time.Duration // of the volumes
		want  time.Duration
	}{
		"node": {"node", true, 7 * time.Second, 7 * time.Second}, "hanging": {"monolith", true, time.Hour, 30 * time.Second},
		"restart": {"node", false, time.Hour, 0}, "controller": {"controller", true, time.Hour, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, begin := newSupervised(c.kind), time.Now()
			s.deps.Quiet = func(ctx context.Context, plugin string) error {
				if plugin != "disk" {
					t.Errorf("waits for plugin %q", plugin)
				}
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(c.busy):
					return nil
				}
			}
			err := s.PreKill(t.Context(), &TaskPreKillRequest{Final: c.final}, nil)
			if got := time.Since(begin); err != nil || got != c.want {
				t.Errorf("%s: PreKill() = %v after %s, want nil after %s", name, err, got, c.want)
			}
		})
	}
}

// A task that was paused, or was restarted, is registered again when its plugin is healthy again.
func TestCSIPlugin_NextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervised("node")
		for range 2 {
			s.run(t, time.Minute)
			if got := s.registry.kinds(); len(got) != 1 {
				t.Errorf("registered as %q while it runs", got)
			}
			if err := s.Exited(t.Context(), nil, nil); err != nil || s.registry.kinds() != nil {
				t.Errorf("Exited() = %v, registered as %q", err, s.registry.kinds())
			}
		}
		if want := []string{"Plugin became healthy: plugin: disk", "Plugin became healthy: plugin: disk"}; !slices.Equal(s.control.events, want) {
			t.Errorf("events %q, want %q", s.control.events, want)
		}
	})
}
