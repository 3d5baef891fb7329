package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// BuildPlugin builds a package as a program in a plugin_dir.
func BuildPlugin(t *testing.T, dir, pkg, name string) {
	t.Helper()
	NeedsRoot(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-tags=companion", "-o", filepath.Join(dir, name), ".")
	cmd.Dir = pkg
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
}

// PluginProcesses lists the processes of a program in a plugin_dir, without those of its tasks.
func PluginProcesses(t *testing.T, dir, name string) (pids []int) {
	t.Helper()
	for pid, args := range commands(t) {
		exe, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe") // it may have ended
		if exe == filepath.Join(dir, name) && args[0] == name {
			pids = append(pids, pid)
		}
	}
	return pids
}

// commands returns the arguments of all processes that run.
func commands(t *testing.T) map[int][]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	out := map[int][]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")); err == nil && len(text) > 0 {
			out[pid] = strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
		}
	}
	return out
}
