package exec2_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// sidecar returns a sidecar that runs a shell script with access to the task's local directory.
func (f *fixture) sidecar(cfg *drivers.TaskConfig, script string) *drivers.Sidecar {
	f.t.Helper()
	sh, err := os.Open("/bin/sh")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { sh.Close() })
	s := &drivers.Sidecar{Program: sh, Args: []string{"sidecar", "-c", script}, Env: map[string]string{"PATH": "/usr/bin:/bin"}, Dir: cfg.LocalDir,
		Paths: []drivers.SidecarPath{{Modes: "rwxc", Name: "web/local", Beneath: cfg.AllocDir}, {Modes: "r", Name: "/proc"}, {Modes: "rw", Name: "/dev/null"}}}
	for _, name := range []string{"/bin", "/usr/bin", "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"} {
		s.Paths = append(s.Paths, drivers.SidecarPath{Modes: "rx", Name: name, Optional: true})
	}
	return s
}

// confine runs a sidecar and returns its exit and output.
func (f *fixture) confine(cfg *drivers.TaskConfig, s *drivers.Sidecar) (*drivers.ExitResult, string) {
	f.t.Helper()
	out, err := os.CreateTemp(f.t.TempDir(), "")
	if err != nil {
		f.t.Fatal(err)
	}
	defer out.Close()
	s.Stdio[1], s.Stdio[2] = out, out
	exit, err := f.Confine(f.t.Context(), cfg, s)
	if err != nil {
		f.t.Fatalf("Confine() = %v", err)
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		f.t.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		f.t.Fatal(err)
	}
	return exit, string(text)
}

// A sidecar has the user and the sandbox of its task, but only its own paths.
func TestConfine(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.task("/bin/sleep", "600")
	script := `id -u; grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; echo x > f; cat f; cat ../../alloc/f || echo denied; exit 3`
	const shared = "/f"
	if err := os.WriteFile(cfg.SharedDir+shared, []byte("shared\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"before", "during"} {
		exit, out := f.confine(cfg, f.sidecar(cfg, script))
		want := strings.TrimPrefix(cfg.User, "nomad-") + "\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nx\n"
		if exit.ExitCode != 3 || !strings.HasPrefix(out, want) || !strings.Contains(out, "denied\n") || strings.Contains(out, "shared\n") {
			t.Errorf("%s the task's run: exit %+v, output %q, want %q and a denied path", when, exit, out, want)
		}
		if when == "before" {
			if _, err := f.StartTask(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.DestroyTask(cfg.ID, true); err != nil {
		t.Error(err)
	}
}
