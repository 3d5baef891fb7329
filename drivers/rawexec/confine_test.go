package rawexec_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// sidecar returns a sidecar that runs a shell script, with its output in a file.
func sidecar(t *testing.T, cfg *drivers.TaskConfig, script string) *drivers.Sidecar {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces")
	}
	if abi, err := landlock.ABI(); err != nil {
		t.Skipf("needs Landlock: have %d, %v", abi, err)
	}
	for dir := cfg.LocalDir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(process.TmpDir(cfg), 0o777); err != nil {
		t.Fatal(err)
	}
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	s := testtask.Shell(t, cfg, script)
	s.Stdio = [3]*os.File{nil, out, out}
	return s
}

// A sidecar of a task without any restriction is confined.
func TestConfine(t *testing.T) {
	d := newDriver(t, nil)
	cfg := task(t, "sleep 1000")
	script := "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | cut -f2 | xargs; id -u; cat /etc/passwd 2>&- || echo denied; exit 3"
	const confined = "0000000000000000 0000000000000000 1 2\n"
	for user, want := range map[string]string{"": confined + "0\ndenied\n", "nobody": confined + "65534\ndenied\n"} {
		cfg.User = user
		s := sidecar(t, cfg, script)
		exit, err := d.Confine(t.Context(), cfg, s)
		if err != nil || exit.ExitCode != 3 {
			t.Errorf("user %q: Confine() = %+v, %v, want exit 3", user, exit, err)
		}
		if out, err := os.ReadFile(s.Stdio[1].Name()); err != nil || string(out) != want {
			t.Errorf("user %q: output %q, %v, want %q", user, out, err, want)
		}
	}
}

// The memory limit of a sidecar before the start does not hold for the task, which has none.
func TestConfineBeforeStart(t *testing.T) {
	h, err := cgroup.Detect()
	if err == nil {
		err = h.Usable()
	}
	if err != nil {
		t.Skipf("needs control groups: %v", err)
	}
	d := newDriver(t, nil)
	cfg := task(t, "sleep 1000")
	s := sidecar(t, cfg, "echo up; sleep 1000")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.Stdio[1] = w
	exit := make(chan *drivers.ExitResult, 1)
	go func() {
		res, err := d.Confine(t.Context(), cfg, s)
		w.Close()
		if err != nil {
			t.Errorf("Confine() = %v", err)
		}
		exit <- res
	}()
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	name := process.GroupName(cfg)
	file := filepath.Join(h.V1["memory"], name.Parent, name.Name, "memory.limit_in_bytes")
	if h.V1["memory"] == "" {
		file = filepath.Join(h.V2, name.Parent, name.Name, "memory.max")
	}
	limit := func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	if got := limit(); got != "67108864" {
		t.Errorf("the limit of the sidecar is %s, want 64 MiB", got)
	}
	if _, err := d.StartTask(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if got := limit(); got != "max" && len(got) < 15 {
		t.Errorf("the limit of the task is %s, want none", got)
	}
	if err := d.DestroyTask(cfg.ID, true); err != nil {
		t.Error(err)
	}
	if res := <-exit; res == nil || res.Signal != 9 {
		t.Errorf("the sidecar: %+v, want the SIGKILL of the task's end", res)
	}
}

// The rules of the driver hold for sidecars, too.
func TestConfineRefuses(t *testing.T) {
	cfg := task(t, "true")
	s := sidecar(t, cfg, "true")
	for want, attrs := range map[string]map[string]cty.Value{
		"disabled":         {"enabled": cty.False},
		"denied_host_uids": {"enabled": cty.True, "denied_host_uids": cty.StringVal("0")},
		"denied_host_gids": {"enabled": cty.True, "denied_host_gids": cty.StringVal("0-10")},
	} {
		if _, err := newDriver(t, attrs).Confine(t.Context(), cfg, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Confine() = %v, want an error with %q", err, want)
		}
	}
	cfg.NetNS = "/run/netns/x"
	if _, err := newDriver(t, nil).Confine(t.Context(), cfg, s); err == nil || !strings.Contains(err.Error(), "network namespace") {
		t.Errorf("Confine() = %v, want an error about the network", err)
	}
}
