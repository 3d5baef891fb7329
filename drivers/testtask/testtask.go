// Package testtask has what tests of drivers need: the directories and the config of a task as the client makes them, a
// supervisor that ends with the test, functions that run a task and return its outcome, and sidecars that run a shell
// script. It also has programs that need no compiler: a boot disk of a guest (guest.go) and a Java class (java.go).
//
// Only tests use the package. It starts no goroutine.
package testtask

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// OpenDir returns a temporary directory that every user can traverse.
func OpenDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// MakeDir makes a directory that every user can write.
func MakeDir(t testing.TB, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
}

// Config returns the config of the nth task "web" in parent, with its directories. The task has no user, limits,
// environment or command.
func Config(t testing.TB, parent string, n int) *drivers.TaskConfig {
	t.Helper()
	alloc := filepath.Join(parent, fmt.Sprintf("alloc%d", n))
	cfg := &drivers.TaskConfig{
		ID:      fmt.Sprintf("%s-%d/web/0000000%d", t.Name(), os.Getpid(), n),
		AllocID: fmt.Sprintf("test-%d-%d-%s", os.Getpid(), n, filepath.Base(filepath.Dir(parent))),
		Name:    "web", AllocDir: alloc, TaskDir: filepath.Join(alloc, "web"), SharedDir: filepath.Join(alloc, "alloc"),
		LocalDir: filepath.Join(alloc, "web/local"), SecretsDir: filepath.Join(alloc, "web/secrets"),
		LogDir: filepath.Join(alloc, "alloc/logs"), Log: drivers.LogConfig{MaxFiles: 3, MaxFileSizeMB: 1},
		CgroupParent: "nomad-test.slice",
	}
	for _, dir := range []string{alloc, cfg.TaskDir, cfg.SharedDir, cfg.LogDir, cfg.LocalDir, cfg.SecretsDir} {
		MakeDir(t, dir)
	}
	return cfg
}

// Shell returns a sidecar that runs a shell script. It can execute the programs of the host, and write to the
// local directory of the task.
func Shell(t testing.TB, cfg *drivers.TaskConfig, script string) *drivers.Sidecar {
	t.Helper()
	sh, err := os.Open("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sh.Close() })
	s := &drivers.Sidecar{Program: sh, Args: []string{"sh", "-c", script}, Env: map[string]string{"PATH": "/usr/bin:/bin"}, Dir: cfg.LocalDir,
		Paths: []drivers.SidecarPath{{Modes: "rwxc", Name: "web/local", Beneath: cfg.AllocDir}, {Modes: "r", Name: "/proc"},
			{Modes: "rw", Name: "/dev/null"}}}
	for _, name := range []string{"/bin", "/usr/bin", "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"} {
		s.Paths = append(s.Paths, drivers.SidecarPath{Modes: "rx", Name: name, Optional: true})
	}
	return s
}

// GroupDirs returns the existing directories of a control group, none without control groups.
func GroupDirs(t testing.TB, parent, name string) (out []string) {
	t.Helper()
	h, err := cgroup.Detect()
	if err != nil {
		return nil
	}
	mounts := []string{h.V2}
	for _, m := range h.V1 {
		mounts = append(mounts, m)
	}
	for _, m := range mounts {
		dir := filepath.Join(m, parent, name)
		if _, err := os.Stat(dir); m != "" && err == nil && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// Output returns what a task has written to a stream, stdout or stderr.
func Output(t testing.TB, cfg *drivers.TaskConfig, stream string) string {
	t.Helper()
	var b bytes.Buffer
	for n := range 10 {
		part, err := os.ReadFile(filepath.Join(cfg.LogDir, fmt.Sprintf("%s.%s.%d", cfg.Name, stream, n)))
		if err == nil {
			b.Write(part)
		}
	}
	return b.String()
}
