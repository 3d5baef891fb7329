package cgroup_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/cgroup"
)

const nobodyUID = 65534

// TestDelegated checks an unprivileged user in a delegated group. As root it creates one and runs
// itself there as nobody. If the tree has no controllers, as on hybrid hosts, Usable must name the
// missing one.
func TestDelegated(t *testing.T) {
	if os.Geteuid() == 0 {
		h := hierarchy(t)
		if h.V2 == "" {
			t.Skip("needs the version 2 tree")
		}
		inDelegated(t, h.V2)
		return
	}
	h, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	root := os.Getenv("DELEGATED")
	if !strings.HasSuffix(h.V2, root) || len(h.V1) > 0 {
		t.Fatalf("hierarchy = %+v, want it to begin at %s", h, root)
	}
	limits := cgroup.Limits{MemoryMax: 64 << 20, CPUQuota: 50_000, Processes: 20}
	usable := h.Usable()
	if usable != nil {
		if !errors.Is(usable, cgroup.ErrUnavailable) || !strings.Contains(usable.Error(), "controller is not delegated to group "+root) {
			t.Errorf("Usable() = %v, want an error that names the controller and %s", usable, root)
		}
		limits = cgroup.Limits{}
	}
	g, err := h.Create("nomad.slice/share.slice", "task.scope", limits)
	if err != nil {
		t.Fatal(err)
	}
	if want := root + "/nomad.slice/share.slice/task.scope"; g.Path() != want {
		t.Errorf("Path() = %s, want %s", g.Path(), want)
	}
	if own, err := os.ReadFile("/proc/self/cgroup"); err != nil || !strings.Contains(string(own), "0::"+root+"/nomad-agent.scope\n") {
		t.Errorf("this process is in %q, %v, want the leaf of the agent", own, err)
	}
	cmd := inside(t, g, "sleep 1000 & echo forked; wait")
	if err := g.KillAll(2 * time.Minute); err != nil {
		t.Error(err)
	}
	cmd.Wait() //nolint:errcheck // it was killed
	removed(t, g.Remove)
	fmt.Println("limits:", usable == nil)
}

// inDelegated creates a group owned by nobody, and runs the test in it.
func inDelegated(t *testing.T, v2 string) {
	t.Helper()
	rel := fmt.Sprintf("/nomad-test-delegated-%d", os.Getpid())
	dir := filepath.Join(v2, rel)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeGroups(t, dir) })
	// Controllers of the root, delegated as a service manager would do it.
	if have, err := os.ReadFile(filepath.Join(v2, "cgroup.controllers")); err == nil {
		for _, c := range strings.Fields(string(have)) {
			os.WriteFile(filepath.Join(v2, "cgroup.subtree_control"), []byte("+"+c), 0) //nolint:errcheck // Usable reports it
		}
	}
	for _, f := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		if err := os.Chown(filepath.Join(dir, f), nobodyUID, nobodyUID); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	open := t.TempDir()
	for d := open; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(open, "cgroup.test")
	if err := os.WriteFile(bin, exe, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, "-test.run=^TestDelegated$", "-test.v")
	cmd.Dir, cmd.Env = "/", []string{"DELEGATED=" + rel, "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyUID, Gid: nobodyUID}, UseCgroupFD: true,
		CgroupFD: int(fd.Fd())}
	limits := "limits: false"
	if have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers")); err == nil && strings.Contains(string(have), "cpu") &&
		strings.Contains(string(have), "memory") && strings.Contains(string(have), "pids") {
		limits = "limits: true"
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), limits) {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// removeGroups removes a tree of groups that have no processes left.
func removeGroups(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeGroups(t, filepath.Join(dir, e.Name()))
		}
	}
	removed(t, func() error { return os.Remove(dir) })
}
