package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/host"
)

// rig is a plugin_dir with programs, and what a Host needs.
type rig struct {
	t     *testing.T
	dir   string
	cfg   host.Config
	super *supervise.Client
}

func newRig(t *testing.T, programs ...string) *rig {
	t.Helper()
	r := &rig{t: t, dir: filepath.Join(t.TempDir(), "plugins")}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	super := supervise.NewClient(filepath.Join(t.TempDir(), "supervise"), log)
	t.Cleanup(func() {
		if err := super.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		super.Close()
	})
	r.super = super
	r.cfg = host.Config{Dir: r.dir, Blocks: map[string]host.Block{}, Logs: super, Log: log, Patience: 5 * time.Second,
		Backoff: 10 * time.Millisecond,
		Runtime: filepath.Join(t.TempDir(), "run")}
	for _, p := range programs {
		r.add(p)
	}
	return r
}

// add adds a program with a plugin block.
func (r *rig) add(name string) {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	file := filepath.Join(r.dir, name)
	if os.Link(self, file) != nil {
		text, err := os.ReadFile(self)
		if err == nil {
			err = os.WriteFile(file, text, 0o755)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	r.cfg.Blocks[name] = host.Block{}
}

// open opens a host, and closes it at the end of the test.
func (r *rig) open() *host.Host {
	r.t.Helper()
	h, err := host.Open(r.t.Context(), r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := h.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return h
}

func find(t *testing.T, h *host.Host, name string) drivers.Driver {
	t.Helper()
	for _, d := range h.Drivers() {
		if d.Name() == name {
			return d
		}
	}
	t.Fatalf("no driver %s", name)
	return nil
}

// prints keeps the last fingerprint of a driver.
func prints(t *testing.T, d drivers.Driver) (last func() drivers.Fingerprint) {
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan drivers.Fingerprint, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for f := range d.Fingerprint(ctx) {
			select {
			case <-got:
			default:
			}
			got <- f
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() drivers.Fingerprint {
		select {
		case f := <-got:
			got <- f
			return f
		default:
			return drivers.Fingerprint{}
		}
	}
}

// healthy waits until a driver is healthy.
func healthy(t *testing.T, d drivers.Driver) func() drivers.Fingerprint {
	t.Helper()
	last := prints(t, d)
	testpace.Until(t, "a healthy driver", func() bool { return last().Health == drivers.HealthHealthy })
	return last
}

// task returns a configuration for the mock driver.
func (r *rig) task(d drivers.Driver, config map[string]any) *drivers.TaskConfig {
	r.t.Helper()
	val, err := drivers.Decode(config, d.TaskSpec())
	if err != nil {
		r.t.Fatal(err)
	}
	alloc := filepath.Join(r.t.TempDir(), "alloc")
	logs := filepath.Join(alloc, "alloc", "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		r.t.Fatal(err)
	}
	return &drivers.TaskConfig{ID: "a/t/" + strconv.FormatInt(time.Now().UnixNano(), 16), AllocID: "a", Name: "t", AllocDir: alloc,
		LogDir: logs,
		Config: val, Log: drivers.LogConfig{MaxFiles: 2, MaxFileSizeMB: 1}}
}

// processes lists the processes of a program of the rig.
func (r *rig) processes(name string) (pids []int) {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		exe, _ := os.Readlink("/proc/" + e.Name() + "/exe")
		args, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if (exe == filepath.Join(r.dir, name) || exe == self) && strings.HasPrefix(string(args), name+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestDriver runs tasks with a driver in another process.
func TestDriver(t *testing.T) {
	r := newRig(t, "good")
	h := r.open()
	d := find(t, h, "good")
	last := healthy(t, d)
	if got := last().Attributes; got["driver.good"] != "1" {
		t.Errorf("attributes = %v", got)
	}
	if c := d.Capabilities(); !c.SendSignals || c.FSIsolation != drivers.FSIsolationNone || c.Exec {
		t.Errorf("capabilities = %+v", c)
	}
	cfg := r.task(d, map[string]any{"run_for": "1h", "exit_code": 7})
	handle, err := d.StartTask(t.Context(), cfg)
	if err != nil || handle.Driver != "good" || handle.TaskID != cfg.ID {
		t.Fatalf("StartTask() = %+v, %v", handle, err)
	}
	if s, err := d.InspectTask(cfg.ID); err != nil || s.State != drivers.TaskRunning || s.Name != "t" {
		t.Errorf("InspectTask() = %+v, %v", s, err)
	}
	samples, err := d.TaskStats(t.Context(), cfg.ID, 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if u := <-samples; u == nil || u.Timestamp.IsZero() {
		t.Errorf("sample = %+v", u)
	}
	if err := d.SignalTask(cfg.ID, "SIGHUP"); err != nil {
		t.Error(err)
	}
	if err := d.SignalTask(cfg.ID, "SIGNONE"); err == nil {
		t.Error("an unknown signal was sent")
	}
	if err := d.DestroyTask(cfg.ID, false); err == nil || !strings.Contains(err.Error(), "running") {
		t.Errorf("DestroyTask() of a running task = %v", err)
	}
	if err := d.StopTask(t.Context(), cfg.ID, time.Minute, ""); err != nil {
		t.Error(err)
	}
	if exit, err := d.WaitTask(t.Context(), cfg.ID); err != nil || exit.Signal != 9 || exit.ExitCode != 137 {
		t.Errorf("WaitTask() = %+v, %v", exit, err)
	}
	for range samples { // the task has ended
	}
	if err := d.DestroyTask(cfg.ID, false); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{"DestroyTask": d.DestroyTask(cfg.ID, true), "StopTask": d.StopTask(t.Context(), cfg.ID, 0, ""),
		"SignalTask": d.SignalTask(cfg.ID, "SIGHUP")} {
		if !errors.Is(err, drivers.ErrTaskNotFound) {
			t.Errorf("%s() of no task = %v", name, err)
		}
	}
	if _, err := d.WaitTask(t.Context(), cfg.ID); !errors.Is(err, drivers.ErrTaskNotFound) {
		t.Errorf("WaitTask() of no task = %v", err)
	}
}

// TestStartErrors checks that the kind of a driver's error crosses the wire.
func TestStartErrors(t *testing.T) {
	r := newRig(t, "good")
	d := find(t, r.open(), "good")
	healthy(t, d)
	for _, recoverable := range []bool{true, false} {
		_, err := d.StartTask(t.Context(), r.task(d, map[string]any{"start_error": "no luck", "start_error_recoverable": recoverable}))
		_, is := errors.AsType[*drivers.RecoverableError](err)
		if err == nil || !strings.Contains(err.Error(), "no luck") || is != recoverable {
			t.Errorf("StartTask() = %v, recoverable %t, want %t", err, is, recoverable)
		}
	}
}

// TestCrash kills the program of a driver with a running task: it is started again, takes over the
// task, and a call that waited for the task continues.
func TestCrash(t *testing.T) {
	r := newRig(t, "good")
	d := find(t, r.open(), "good")
	last := healthy(t, d)
	cfg := r.task(d, map[string]any{"run_for": "1h"})
	if _, err := d.StartTask(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	exits := make(chan *drivers.ExitResult, 1)
	go func() {
		exit, err := d.WaitTask(context.Background(), cfg.ID)
		if err != nil {
			t.Error(err)
		}
		exits <- exit
	}()
	for range 3 {
		before := r.processes("good")
		if len(before) != 1 {
			t.Fatalf("%d processes, want 1", len(before))
		}
		unix.Kill(before[0], unix.SIGKILL)
		testpace.Until(t, "another process", func() bool {
			now := r.processes("good")
			return len(now) == 1 && now[0] != before[0] && last().Health == drivers.HealthHealthy
		})
		if s, err := d.InspectTask(cfg.ID); err != nil || s.State != drivers.TaskRunning {
			t.Fatalf("InspectTask() = %+v, %v", s, err)
		}
	}
	if err := d.StopTask(t.Context(), cfg.ID, time.Second, ""); err != nil {
		t.Fatal(err)
	}
	if exit := <-exits; exit == nil || exit.Signal != 9 {
		t.Errorf("exit = %+v", exit)
	}
}

// TestRecover has the driver of the next agent take over a task by its handle.
func TestRecover(t *testing.T) {
	r := newRig(t, "good")
	first, err := host.Open(t.Context(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	d := find(t, first, "good")
	healthy(t, d)
	cfg := r.task(d, map[string]any{"run_for": "1h"})
	handle, err := d.StartTask(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if left := r.processes("good"); len(left) != 0 {
		t.Errorf("processes %v remain", left)
	}
	if _, err := d.InspectTask(cfg.ID); !errors.Is(err, drivers.ErrNotRunning) {
		t.Errorf("InspectTask() of a closed host = %v", err)
	}
	next := find(t, r.open(), "good")
	healthy(t, next)
	if err := next.RecoverTask(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
	if s, err := next.InspectTask(cfg.ID); err != nil || s.State != drivers.TaskRunning {
		t.Errorf("InspectTask() = %+v, %v", s, err)
	}
	if err := next.DestroyTask(cfg.ID, true); err != nil {
		t.Error(err)
	}
	unfinished := *handle
	unfinished.State = nil // the agent ended during the start
	if err := next.RecoverTask(t.Context(), &unfinished); !errors.Is(err, drivers.ErrTaskNotFound) {
		t.Errorf("RecoverTask() of an unfinished start = %v", err)
	}
	foreign := *handle
	foreign.Driver = "bad"
	if err := next.RecoverTask(t.Context(), &foreign); err == nil || errors.Is(err, drivers.ErrTaskNotFound) {
		t.Errorf("RecoverTask() of another driver's handle = %v", err)
	}
}

// TestRecoverFault has a driver refuse a task. It is not given up at once.
func TestRecoverFault(t *testing.T) {
	r := newRig(t, "good")
	first, err := host.Open(t.Context(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	d := find(t, first, "good")
	healthy(t, d)
	cfg := r.task(d, map[string]any{"run_for": "1h", "recover_error": "the daemon is not there yet"})
	handle, err := d.StartTask(t.Context(), cfg)
	if err != nil {
		t.Skip("the mock driver has no such option: ", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next := find(t, r.open(), "good")
	healthy(t, next)
	for range 2 {
		if err := next.RecoverTask(t.Context(), handle); err == nil || errors.Is(err, drivers.ErrTaskNotFound) ||
			!strings.Contains(err.Error(), "not there yet") {
			t.Errorf("RecoverTask() = %v, want the reason", err)
		}
	}
}

// TestEnvironment checks what a program gets of the agent: no descriptors and no variables but those
// of the protocol.
func TestEnvironment(t *testing.T) {
	t.Setenv("NOMAD_TOKEN", "secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	r := newRig(t, "spy")
	file := filepath.Join(t.TempDir(), "report")
	r.cfg.Blocks["spy"] = host.Block{Args: []string{file}}
	open, err := os.Open("/etc/hostname") // a descriptor of the agent
	if err == nil {
		defer open.Close()
	}
	healthy(t, find(t, r.open(), "spy"))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"PATH", "TMPDIR", "NOMAD_PLUGIN_MAGIC_COOKIE", "PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT", "PLUGIN_PROTOCOL_VERSIONS",
		"PLUGIN_UNIX_SOCKET_DIR"}
	for line := range strings.Lines(string(text)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch kind {
		case "env":
			if name, _, _ := strings.Cut(rest, "="); !slices.Contains(allowed, name) {
				t.Errorf("the program has the variable %s", name)
			}
		case "fd":
			n, target, _ := strings.Cut(rest, " ")
			if n == "0" && target != "/dev/null" {
				t.Errorf("standard input is %s", target)
			}
			if !slices.Contains([]string{"0", "1", "2"}, n) && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/proc/") &&
				!strings.HasPrefix(target, "/sys/fs/cgroup/") {
				t.Errorf("the program has descriptor %s: %s", n, target)
			}
		}
	}
	if !strings.Contains(string(text), "env PLUGIN_PROTOCOL_VERSIONS=2") {
		t.Errorf("report = %s", text)
	}
}

// TestInstances runs one program as two drivers.
func TestInstances(t *testing.T) {
	r := newRig(t, "good", "other")
	r.cfg.Blocks["second"] = host.Block{Backend: "good",
		Config: map[string]any{"shutdown_periodic_after": true, "shutdown_periodic_duration": 3600}}
	h := r.open()
	if got := h.Backends(); len(got) != 2 || got["good"] != "good" || got["second"] != "good" {
		t.Errorf("Backends() = %v", got)
	}
	// "other" has the higher version of the same driver.
	if n := len(r.processes("other")); n != 2 || len(r.processes("good")) != 0 {
		t.Errorf("%d processes of the newer program and %d of the older, want 2 and none", n, len(r.processes("good")))
	}
	last := healthy(t, find(t, h, "second"))
	if got := last().Attributes; got["driver.second"] != "1" || got["driver.good"] != "" {
		t.Errorf("attributes = %v, want those of the instance", got)
	}
	healthy(t, find(t, h, "good"))
}

// TestBlocks checks plugin blocks that stop the agent.
func TestBlocks(t *testing.T) {
	for name, tc := range map[string]struct {
		program, label string
		block          host.Block
		want           string
	}{
		"unknown key":     {"good", "good", host.Block{Config: map[string]any{"colour": "red"}}, `unknown argument "colour"`},
		"wrong type":      {"good", "good", host.Block{Config: map[string]any{"shutdown_periodic_after": []any{}}}, "shutdown_periodic_after"},
		"no schema":       {"hangprint", "hangprint", host.Block{Config: map[string]any{"x": 1}}, `unknown argument "x"`},
		"refused":         {"refuses", "refuses", host.Block{}, "there is no moon tonight"},
		"unknown backend": {"good", "x", host.Block{Backend: "bad"}, `unknown driver "bad"`},
		"broken backend":  {"crash", "x", host.Block{Backend: "crash"}, `unknown driver "crash"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tc.program)
			r.cfg.Blocks[tc.label] = tc.block
			h, err := host.Open(t.Context(), r.cfg)
			wrong, ok := errors.AsType[*host.BlockError](err)
			if !ok || wrong.Label != tc.label || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("Open() = %v, %v, want an error about %s with %q", h, err, tc.label, tc.want)
			}
			if left := r.processes(tc.program); len(left) != 0 {
				t.Errorf("processes %v remain", left)
			}
		})
	}
}

// TestIgnored checks programs that are not started.
func TestIgnored(t *testing.T) {
	r := newRig(t, "good", "spy")
	delete(r.cfg.Blocks, "spy")
	r.cfg.Builtin = []string{"good"}
	if list := r.open().Drivers(); len(list) != 0 {
		t.Errorf("%d drivers, want none: one has no block, the other is built in", len(list))
	}
	r.cfg.Builtin, r.cfg.Allows = nil, func(string) bool { return false }
	if list := r.open().Drivers(); len(list) != 0 || len(r.processes("good")) != 0 {
		t.Errorf("%d drivers, want none: the options deny it", len(list))
	}
	r.cfg.Dir = filepath.Join(r.dir, "absent")
	if list := r.open().Drivers(); len(list) != 0 {
		t.Errorf("%d drivers without a plugin_dir", len(list))
	}
}

// TestDirectory refuses a plugin_dir, or a program, that others can change.
func TestDirectory(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"writable by others": {func(dir string) error { return os.Chmod(dir, 0o757) }, "has mode 0757"},
		"writable by group":  {func(dir string) error { return os.Chmod(dir, 0o775) }, "has mode 0775"},
		"another owner":      {func(dir string) error { return os.Chown(dir, 65534, -1) }, "belongs to uid 65534"},
		"a file": {func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) },
			"not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "good")
			if err := tc.spoil(r.dir); err != nil {
				t.Skip("needs root: ", err)
			}
			_, err := host.Open(t.Context(), r.cfg)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), r.dir) {
				t.Errorf("Open() = %v, want an error that names the directory, with %q", err, tc.want)
			}
			r.cfg.Blocks = nil // it is not used
			if _, err := host.Open(t.Context(), r.cfg); err != nil {
				t.Errorf("Open() without a block = %v", err)
			}
		})
	}
}

// unhealthy opens the host and waits for the reason why a driver cannot be used. Another driver works
// meanwhile.
func (r *rig) unhealthy(name string) string {
	r.t.Helper()
	r.add("good")
	h := r.open()
	last := prints(r.t, find(r.t, h, name))
	testpace.Within(r.t, time.Minute, "an unhealthy driver", func() bool { return last().Health == drivers.HealthUnhealthy })
	good := find(r.t, h, "good")
	healthy(r.t, good)
	cfg := r.task(good, map[string]any{"run_for": "1ms"})
	if _, err := good.StartTask(r.t.Context(), cfg); err != nil {
		r.t.Error(err)
	}
	if exit, err := good.WaitTask(r.t.Context(), cfg.ID); err != nil || exit.ExitCode != 0 {
		r.t.Errorf("WaitTask() = %+v, %v", exit, err)
	}
	return last().Description
}

// TestBadPrograms checks that the reason why a program cannot be used is in the health of its driver,
// within bounded time.
func TestBadPrograms(t *testing.T) {
	for name, want := range map[string]string{
		"crash":      "exit status 3 before its handshake: its last output was: the disk is upside down",
		"silent":     "silent sent no handshake in time",
		"closed":     "closed its output before its handshake",
		"version":    `version "3" of the plugin protocol, and this version supports only 2`,
		"core":       `version "2" of the handshake`,
		"tcp":        `listens on "tcp" "127.0.0.1:1", and only a unix socket`,
		"netrpc":     `speaks "netrpc"`,
		"cert":       "sent a certificate",
		"gone":       "is not running",
		"garbage":    `sent no handshake, but "?[31mgarbage`,
		"untyped":    `"x" is a plugin of type 0`,
		"api":        `API versions ["v0.9.0"], and this version supports only v0.1.0`,
		"noversion":  "has no version",
		"badname":    `"../x" is not a name of a driver`,
		"huge":       "larger than max",
		"hanginfo":   "did not answer in time",
		"badschema":  "schema of the plugin block",
		"hangprint":  "sent no fingerprint within",
		"hugeprint":  "larger than max",
		"crashprint": "exit status 4: its last output was: fatal: no more",
		"chroot":     "needs a chroot directory",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, name)
			r.cfg.Patience = 30 * time.Second
			if slices.Contains([]string{"silent", "closed", "gone", "hanginfo", "hangprint"}, name) {
				r.cfg.Patience = 2 * time.Second
			}
			if got := r.unhealthy(name); !strings.Contains(got, want) {
				t.Errorf("description = %q, want %q", got, want)
			}
		})
	}
}

// TestBadFiles checks files that cannot be executed.
func TestBadFiles(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		make func(file string) error
		want string
	}{
		"not executable": {func(file string) error { return os.WriteFile(file, []byte("x"), 0o644) }, "bad in plugin_dir: is not executable"},
		"a link":         {func(file string) error { return os.Symlink(self, file) }, "bad in plugin_dir is a symbolic link"},
		"a directory":    {func(file string) error { return os.Mkdir(file, 0o755) }, "bad in plugin_dir: is not a regular file"},
		"a FIFO":         {func(file string) error { return unix.Mkfifo(file, 0o755) }, "bad in plugin_dir: is not a regular file"},
		"a text":         {func(file string) error { return os.WriteFile(file, []byte("hello\n"), 0o755) }, "start bad: exec format error"},
		"writable": {func(file string) error {
			return errors.Join(os.WriteFile(file, []byte("x"), 0o755), os.Chmod(file, 0o777))
		}, "bad in plugin_dir: has mode 0777"},
		"no shell": {func(file string) error { return os.WriteFile(file, []byte("#!/nowhere/sh\n"), 0o755) }, "start bad: no such file"},
		"a script": {func(file string) error { return os.WriteFile(file, []byte("#!/bin/sh\necho no handshake\n"), 0o755) },
			`bad sent no handshake, but "no handshake"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if err := tc.make(filepath.Join(r.dir, "bad")); err != nil {
				t.Fatal(err)
			}
			r.cfg.Blocks["bad"] = host.Block{}
			if got := r.unhealthy("bad"); !strings.Contains(got, tc.want) {
				t.Errorf("description = %q, want %q", got, tc.want)
			}
		})
	}
}

// TestScript runs a program through a script that executes it.
func TestScript(t *testing.T) {
	r := newRig(t, "good")
	delete(r.cfg.Blocks, "good")
	script := fmt.Sprintf("#!/bin/bash\nexec -a good %s/good \"$@\"\n", r.dir)
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("needs bash: ", err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "wrapped"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r.cfg.Blocks["wrapped"] = host.Block{}
	healthy(t, find(t, r.open(), "good"))
}

// TestCrashLoop has a program that ends with each fingerprint: the restarts become rare.
func TestCrashLoop(t *testing.T) {
	r := newRig(t, "crashprint")
	r.cfg.Backoff = 100 * time.Millisecond
	d := find(t, r.open(), "crashprint")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	n := 0
	for range d.Fingerprint(ctx) {
		n++
	}
	if n < 2 || n > 5 { // 0.1 + 0.2 + 0.4 + 0.8 + 1.6 s
		t.Errorf("%d restarts in 3 s, want 2 to 5", n)
	}
	if _, err := d.StartTask(ctx, &drivers.TaskConfig{ID: "a/t/1", Name: "t", AllocDir: "/a"}); err == nil {
		t.Error("StartTask() with a broken driver = nil")
	}
}

// TestNoise has a program fill its log: it works, and the agent's log gets a part.
func TestNoise(t *testing.T) {
	r := newRig(t, "noise")
	lines := &counter{}
	r.cfg.Log = slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h, err := host.Open(t.Context(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	d := find(t, h, "noise")
	healthy(t, d)
	if _, err := d.InspectTask("absent"); !errors.Is(err, drivers.ErrTaskNotFound) {
		t.Errorf("InspectTask() = %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if n := lines.n.Load(); n < 100 || n > 5000 {
		t.Errorf("%d lines were logged, want some", n)
	}
}

var _ io.Writer = (*counter)(nil)
