package exec2_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/denials"
	"github.com/open-nomad/open-nomad/internal/testaudit"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// heard records the events of a driver.
type heard struct {
	updates chan struct{} // buffered 1: there is a new event

	mu     sync.Mutex
	events []*drivers.TaskEvent
}

func (h *heard) tell(e *drivers.TaskEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	select {
	case h.updates <- struct{}{}:
	default: // already signaled
	}
}

// wait returns the first event about a task, and calls meanwhile repeatedly until then.
func (h *heard) wait(t *testing.T, id string, meanwhile func() error) *drivers.TaskEvent {
	t.Helper()
	late := time.After(2 * time.Minute)
	for {
		if e := h.of(id, "Sandbox Denial"); e != nil {
			return e
		}
		if err := meanwhile(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-h.updates:
		case <-time.After(50 * time.Millisecond):
		case <-late:
			t.Fatalf("no event about task %s", id)
		}
	}
}

// of returns the last event of a type about a task, or nil.
func (h *heard) of(id, kind string) *drivers.TaskEvent {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.events) - 1; i >= 0; i-- {
		if h.events[i].TaskID == id && h.events[i].Type == kind {
			return h.events[i]
		}
	}
	return nil
}

// count returns the number of events about all tasks.
func (h *heard) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.events)
}

// report starts reporting until the test ends.
func (f *fixture) report() *heard {
	f.t.Helper()
	h := &heard{updates: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Report(ctx, h.tell) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != context.Canceled {
			f.t.Errorf("Report() = %v", err)
		}
	})
	return h
}

// until repeats a task until the kernel's records arrive in time. It returns the denials of a run
// with at least so many, or those of the last run.
func (f *fixture) until(h *heard, least int, start func() *drivers.TaskConfig) (*drivers.TaskEvent, []denials.Denial) {
	f.t.Helper()
	for {
		cfg := start()
		f.run(cfg)
		e := h.of(cfg.ID, "Sandbox Denial")
		last := f.t.Context().Err() != nil || f.n > 50
		if e == nil {
			if last {
				f.t.Fatal("no denial was reported")
			}
			continue
		}
		var list []denials.Denial
		if err := json.Unmarshal([]byte(e.Details["denials"]), &list); err != nil {
			f.t.Fatal(err)
		}
		if last || len(list) >= least {
			return e, list
		}
	}
}

// TestDenialsExplained checks that denials of Landlock and seccomp are reported with the option
// that allows them. A locale's alias file and the task's own files are not reported.
func TestDenialsExplained(t *testing.T) {
	testaudit.Need(t, denials.Audit)
	f := newFixture(t, settings{"explain_denials": cty.StringVal("audit")})
	h := f.report()
	e, list := f.until(h, 4, func() *drivers.TaskConfig {
		cfg := f.task("/bin/sh", "-c",
			"LANG=en_US.UTF-8 /usr/bin/cat /etc/passwd /etc/passwd; echo x > local/ok; echo x > /var/tmp/no; /usr/bin/unshare -U true; /usr/sbin/chroot / true")
		return cfg
	})
	var got []string
	for _, d := range list {
		got = append(got, d.Rule+" "+d.Path+" "+d.Unveil)
	}
	text := "\n" + strings.Join(got, "\n") + "\n"
	for _, want := range []string{"\nfs.read_file /etc/passwd r:/etc/passwd\n", "\nfs.make_reg /var/tmp c:/var/tmp\n", "\nunshare  \n",
		"\nfs.execute,fs.read_file /usr/sbin/chroot rx:/usr/sbin/chroot\n"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("denials are %q, want %q once", got, want)
		}
	}
	if strings.Contains(text, "locale.alias") || strings.Contains(text, "local/ok") || strings.Contains(text, "clone3") {
		t.Errorf("denials are %q, with noise", got)
	}
	if want := `fs.read_file /etc/passwd (unveil = ["r:/etc/passwd"] allows it)`; !strings.Contains(e.Message, want) {
		t.Errorf("the message is %q, want %q in it", e.Message, want)
	}
}

// TestCallsExplained does not use auditing: system calls only.
func TestCallsExplained(t *testing.T) {
	testaudit.Need(t, denials.Calls)
	f := newFixture(t, settings{"explain_denials": cty.StringVal("seccomp"), "unveil_by_task": cty.False})
	h := f.report()
	_, list := f.until(h, 1, func() *drivers.TaskConfig {
		cfg := f.task("/bin/sh", "-c", "cat /etc/passwd; unshare -U true")
		cfg.User = "nobody" // no unique uid: attribution by the control group
		cfg.Config = cty.ObjectVal(map[string]cty.Value{"command": cty.StringVal("/bin/sh"),
			"args": list([]string{"-c", "cat /etc/passwd; unshare -U true"})})
		return cfg
	})
	if len(list) != 1 || list[0].Layer != denials.Seccomp || list[0].Rule != "unshare" {
		t.Errorf("denials are %+v, want the system call unshare alone", list)
	}
}

// TestNotExplained checks that nothing is reported unless the operator enables it.
func TestNotExplained(t *testing.T) {
	f := newFixture(t, nil)
	h := f.report()
	cfg := f.task("/bin/cat", "/etc/passwd")
	f.run(cfg)
	if e := h.of(cfg.ID, "Sandbox Denial"); e != nil {
		t.Errorf("reported %+v", e)
	}
	fp := <-f.Fingerprint(t.Context())
	if got := fp.Attributes["driver.exec2.explain_denials"]; got != "off" {
		t.Errorf("attribute is %q, want off", got)
	}
}

// TestSandboxReport checks that a live task matches its policy, and that a later change is reported
// once.
func TestSandboxReport(t *testing.T) {
	f := newFixture(t, settings{"on_mismatch": cty.StringVal("kill")})
	h := f.report()
	cfg := f.task("/bin/sleep", "1000")
	data := filepath.Join(f.dir, "data")
	testtask.MakeDir(t, data)
	at, err := os.MkdirTemp("/var/tmp", "exec2-report-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(at)
	cfg.Mounts = []drivers.Mount{{TaskPath: at, HostPath: data, ReadOnly: true},
		{TaskPath: filepath.Join(cfg.TaskDir, "made/here"), HostPath: data}, {TaskPath: "/tmp/cache", HostPath: data}}
	ctx := t.Context()
	if _, err := f.StartTask(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	r, err := f.Sandbox(ctx, cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	layers := map[string]drivers.SandboxLayer{}
	for _, l := range r.Layers {
		layers[l.Name] = l
		if !l.Match {
			t.Errorf("%s is %q, declared %q", l.Name, l.Live, l.Declared)
		}
	}
	for _, name := range []string{"uid", "groups", "CapEff", "no_new_privs", "seccomp", "ipc namespace", "pid namespace", "mnt namespace",
		"/tmp", "/proc", "bind " + at, "pids.max", "limit of core file size", "landlock"} {
		if layers[name].Declared == "" || (layers[name].Live == "") != (name == "landlock") {
			t.Errorf("layer %s is %+v", name, layers[name])
		}
	}
	raw, _ := json.Marshal(r)
	if strings.Contains(string(raw), "NOMAD_TASK_DIR") {
		t.Error("the report contains the environment")
	}
	// A limit below the declared one is reported as stricter, not as a mismatch.
	if err := os.WriteFile(pidsMax(t, cfg), []byte("7"), 0); err != nil {
		t.Fatal(err)
	}
	if r, err = f.Sandbox(ctx, cfg.ID); err != nil || len(r.Mismatches()) > 0 {
		t.Errorf("Sandbox() = %+v, %v, want no mismatch", r, err)
	}
	for _, l := range r.Layers {
		if l.Stricter != (l.Name == "pids.max") || layers[l.Name].Stricter {
			t.Errorf("%s is %q, declared %q, stricter %t, before %t", l.Name, l.Live, l.Declared, l.Stricter, layers[l.Name].Stricter)
		}
	}
	// As root on the host could: raise the process limit.
	if err := os.WriteFile(pidsMax(t, cfg), []byte("max"), 0); err != nil {
		t.Fatal(err)
	}
	f.Compare(ctx)
	f.Compare(ctx)
	var e *drivers.TaskEvent
	testpace.Until(t, "the mismatch is reported", func() bool { // the driver's own comparison may have found it, and not reported it yet
		e = h.of(cfg.ID, "Sandbox Mismatch")
		return e != nil
	})
	if !e.Kill || e.Details["mismatch.pids.max"] != "max" {
		t.Errorf("reported %+v, want the looser limit, and Kill", e)
	}
	if n := h.count(); n != 1 {
		t.Errorf("reported %d times, want once", n)
	}
	if err := f.StopTask(ctx, cfg.ID, 0, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Sandbox(ctx, cfg.ID); !errors.Is(err, drivers.ErrTaskNotFound) {
		t.Errorf("Sandbox() of a task that has ended = %v, want ErrTaskNotFound", err)
	}
}

// pidsMax returns the file with the process limit of a task.
func pidsMax(t *testing.T, cfg *drivers.TaskConfig) string {
	t.Helper()
	h, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	controller := ""
	if h.V1["pids"] != "" {
		controller = "pids"
	}
	g := process.GroupName(cfg)
	join, err := h.Existing(controller, g.Parent+"/"+g.Name)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(filepath.Dir(join), "pids.max")
}

// asDeclared starts a task, compares its live sandbox with its policy, and ends it.
func asDeclared(t *testing.T, f *fixture, cfg *drivers.TaskConfig) {
	t.Helper()
	if _, err := f.StartTask(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	r, err := f.Sandbox(t.Context(), cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range r.Mismatches() {
		t.Errorf("%s is %q, declared %q", l.Name, l.Live, l.Declared)
	}
	if len(r.Layers) < 15 {
		t.Errorf("only %d layers: %+v", len(r.Layers), r.Layers)
	}
	if err := f.StopTask(t.Context(), cfg.ID, 0, ""); err != nil {
		t.Fatal(err)
	}
}

// TestExplainedAfterRecovery checks attribution by a later agent. The kernel reports the process of
// a Landlock domain only once, to the first agent, so the later one uses the control group.
func TestExplainedAfterRecovery(t *testing.T) {
	testaudit.Need(t, denials.Audit)
	f := newFixture(t, settings{"explain_denials": cty.StringVal("audit")})
	h := f.report()
	cfg := f.task("/bin/sh", "-c", "trap 'cat /etc/passwd' USR1; cat /etc/hostname; while :; do sleep 0.01; done")
	handle, err := f.StartTask(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.wait(t, cfg.ID, func() error { return nil })
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	next := &fixture{Driver: exec2.New(exec2.Config{Name: exec2.Name, Log: log, Supervisor: f.super}), t: t, super: f.super, dir: f.dir}
	if err := next.SetConfig(cty.ObjectVal(settings{"explain_denials": cty.StringVal("audit"), "unveil_by_task": cty.True})); err != nil {
		t.Fatal(err)
	}
	later := next.report()
	if err := next.RecoverTask(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
	e := later.wait(t, cfg.ID, func() error { return next.SignalTask(cfg.ID, "SIGUSR1") })
	if !strings.Contains(e.Message, "/etc/passwd") {
		t.Errorf("reported %q", e.Message)
	}
	if err := next.StopTask(t.Context(), cfg.ID, 0, ""); err != nil {
		t.Fatal(err)
	}
}
