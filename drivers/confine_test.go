package drivers_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/supervise"
	plugin "github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestSidecarsDoNotSeeTheAgent checks that each instance hides the agent's directories from programs
// of the client that work for its tasks.
func TestSidecarsDoNotSeeTheAgent(t *testing.T) {
	if os.Geteuid() != 0 || process.OwnNamespaces() != nil {
		t.Skip("needs root: namespaces")
	}
	own, err := os.MkdirTemp("/var/tmp", "own-") // a sidecar has a private /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(own) })
	if err := os.Chmod(own, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "state"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	super := supervise.NewClient(filepath.Join(t.TempDir(), "supervise"), log)
	t.Cleanup(func() { super.Close() })
	all := open(t, drivers.NewHost(drivers.HostConfig{Log: log, Supervisor: super, AgentDirs: []string{own}}), blocks{
		"raw-open":   {Backend: "raw_exec", Config: options{"enabled": true}},
		"exec2-open": {Backend: "exec2", Config: options{"allow_unprivileged": true}}, "exec": {},
	})
	for _, name := range []string{"raw-open", "exec2-open", "exec"} {
		t.Run(name, func(t *testing.T) {
			cfg := taskOf(t, all[name])
			exit, err := all[name].(plugin.Confiner).Confine(t.Context(), cfg, lister(t, cfg, own))
			if err != nil || exit.ExitCode != 2 {
				t.Errorf("Confine() = %+v, %v, want the exit 2 of a program that sees an empty directory", exit, err)
			}
		})
	}
}

// taskOf returns a task of a driver.
func taskOf(t *testing.T, d plugin.Driver) *plugin.TaskConfig {
	t.Helper()
	v, err := plugin.Decode(options{"command": "/bin/true"}, d.TaskSpec())
	if err != nil {
		t.Fatal(err)
	}
	dir := passable(t, "alloc")
	cfg := &plugin.TaskConfig{ID: "a/t/1", AllocID: "a", Name: "t", User: "nobody", Config: v, AllocDir: dir, TaskDir: filepath.Join(dir, "t"),
		SharedDir: filepath.Join(dir, "alloc"), LocalDir: filepath.Join(dir, "t/local"), SecretsDir: filepath.Join(dir, "t/secrets"),
		Limits: plugin.LinuxResources{CPUShares: 100, MHzPerCore: 1000, MemoryBytes: 64 << 20}, CgroupParent: "nomad-test.slice"}
	for _, d := range []string{cfg.SharedDir, cfg.LocalDir, cfg.SecretsDir, process.TmpDir(cfg)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return cfg
}

// lister returns a sidecar that has the exit 2 if a directory is there and has no file state.
func lister(t *testing.T, cfg *plugin.TaskConfig, dir string) *plugin.Sidecar {
	t.Helper()
	sh, err := os.Open("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sh.Close() })
	s := &plugin.Sidecar{Program: sh, Args: []string{"sh", "-c", `[ -e "$0/state" ] && exit 3; [ -d "$0" ] && exit 2; exit 4`, dir},
		Dir: cfg.LocalDir, Paths: []plugin.SidecarPath{{Modes: "rx", Name: filepath.Dir(dir)}}}
	for _, name := range []string{"/bin", "/usr/bin", "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"} {
		s.Paths = append(s.Paths, plugin.SidecarPath{Modes: "rx", Name: name, Optional: true})
	}
	return s
}

// passable returns a new directory through which every user can pass.
func passable(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for up := dir; up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
