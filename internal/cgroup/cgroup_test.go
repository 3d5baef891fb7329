package cgroup_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
)

const parent = "nomad-test.slice/cgroup"

func hierarchy(t *testing.T) *cgroup.Hierarchy {
	t.Helper()
	h, err := cgroup.Detect()
	if err == nil {
		err = h.Usable()
	}
	if err != nil {
		t.Skipf("no control groups: %v", err)
	}
	return h
}

func create(t *testing.T, h *cgroup.Hierarchy, l cgroup.Limits) *cgroup.Group {
	t.Helper()
	g, err := h.Create(parent, fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "_"), os.Getpid()), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.KillAll(2 * time.Minute); err != nil {
			t.Error(err)
		}
		removed(t, g.Remove)
	})
	return g
}

// removed removes a group whose processes were killed, and waits until they have ended.
func removed(t *testing.T, remove func() error) {
	t.Helper()
	for late := time.Now().Add(2 * time.Minute); ; <-time.After(time.Millisecond) {
		err := remove()
		if errors.Is(err, unix.EBUSY) && time.Now().Before(late) {
			continue
		}
		if err != nil {
			t.Error(err)
		}
		return
	}
}

// inside starts a shell in the group and waits until it has forked a child.
func inside(t *testing.T, g *cgroup.Group, script string) *exec.Cmd {
	t.Helper()
	join := ""
	for _, f := range g.JoinFiles() {
		join += "echo 0 > " + f + " || exit 1\n"
	}
	if d := g.Dir(); d != "" {
		join += "echo 0 > " + filepath.Join(d, "cgroup.procs") + " || exit 1\n"
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", join+script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatalf("shell in the group: %v", err)
	}
	return cmd
}

func TestKillAll(t *testing.T) {
	h := hierarchy(t)
	g := create(t, h, cgroup.Limits{})
	cmd := inside(t, g, "(trap '' TERM; setsid sleep 1000) & sleep 1000 & echo up; wait")
	pids, err := g.Pids()
	if err != nil || len(pids) < 3 || !slices.Contains(pids, cmd.Process.Pid) {
		t.Fatalf("Pids() = %v, %v, want the shell %d and its children", pids, err, cmd.Process.Pid)
	}
	if same, err := h.Processes(cmd.Process.Pid); err != nil || len(same) < len(pids) || !slices.Contains(same, cmd.Process.Pid) ||
		slices.Contains(same, os.Getpid()) {
		t.Errorf("Processes(%d) = %v, %v, want %v", cmd.Process.Pid, same, err, pids)
	}
	if err := g.KillAll(2 * time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the shell was not killed")
	}
	if pids, err := g.Pids(); err != nil || len(pids) > 0 {
		t.Errorf("Pids() after KillAll = %v, %v, want none", pids, err)
	}
}

func TestLimits(t *testing.T) {
	h := hierarchy(t)
	g := create(t, h, cgroup.Limits{MemoryMax: 64 << 20, MemoryLow: 32 << 20, CPUQuota: 50_000, CPUShares: 512, Processes: 20})
	files := map[string]string{
		"memory.limit_in_bytes": "67108864", "memory.soft_limit_in_bytes": "33554432", "cpu.cfs_quota_us": "50000",
		"cpu.cfs_period_us": "100000", "cpu.shares": "512", "pids.max": "20",
	}
	if h.Version() == "v2" {
		files = map[string]string{"memory.max": "67108864", "memory.low": "33554432", "cpu.max": "50000 100000", "pids.max": "20"}
	}
	for file, want := range files {
		c, _, _ := strings.Cut(file, ".")
		mount := h.V1[c]
		if mount == "" {
			mount = h.V2
		}
		b, err := os.ReadFile(filepath.Join(mount, g.Path(), file))
		if got := strings.TrimSpace(string(b)); err != nil || got != want {
			t.Errorf("%s = %q, %v, want %q", file, got, err, want)
		}
	}
}

func TestTinyQuota(t *testing.T) {
	create(t, hierarchy(t), cgroup.Limits{CPUQuota: 10, CPUShares: 1})
}

func TestCores(t *testing.T) {
	h := hierarchy(t)
	g := create(t, h, cgroup.Limits{Cores: []uint16{0}})
	cmd := inside(t, g, "echo up; sleep 1000")
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil || !strings.Contains(string(b), "Cpus_allowed_list:\t0\n") {
		t.Errorf("the task may use other cores than 0: %v", err)
	}
	if err := g.KillAll(2 * time.Minute); err != nil {
		t.Error(err)
	}
	cmd.Wait() //nolint:errcheck // killed
}

func TestStats(t *testing.T) {
	h := hierarchy(t)
	g := create(t, h, cgroup.Limits{MemoryMax: 64 << 20})
	cmd := inside(t, g, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo up; sleep 1000")
	s := g.Stats()
	if s.CPUTotal == 0 || s.MemoryUsage == 0 || s.OOMKills != 0 {
		t.Errorf("Stats() = %+v, want some CPU and memory, no kills", s)
	}
	if err := g.KillAll(2 * time.Minute); err != nil {
		t.Error(err)
	}
	cmd.Wait() //nolint:errcheck // killed
}

// Create makes a group only in the trees that it needs, and Open finds it there. A cpuset is for
// reserved cores; a freezer and cpuacct are for hosts without version 2.
func TestTrees(t *testing.T) {
	both := hierarchy(t)
	if len(both.V1) == 0 {
		t.Skip("needs trees of version 1")
	}
	for _, h := range []*cgroup.Hierarchy{both, {V1: both.V1}} {
		for name, tc := range map[string]struct {
			limits cgroup.Limits
			not    []string
		}{
			"shared": {cgroup.Limits{}, []string{"cpuset"}},
			"cores":  {cgroup.Limits{Cores: []uint16{0}}, nil},
		} {
			t.Run(h.Version()+" "+name, func(t *testing.T) {
				g := create(t, h, tc.limits)
				if h.V2 != "" {
					tc.not = append(tc.not, "freezer", "cpuacct")
				}
				var want []string
				for c, mount := range h.V1 {
					if file := filepath.Join(mount, g.Path(), "tasks"); !slices.Contains(tc.not, c) && !slices.Contains(want, file) {
						want = append(want, file)
					}
				}
				again, err := h.Open(parent, filepath.Base(g.Path()))
				if err != nil {
					t.Fatal(err)
				}
				slices.Sort(want)
				for _, g := range []*cgroup.Group{g, again} {
					if got := slices.Sorted(slices.Values(g.JoinFiles())); !slices.Equal(got, want) {
						t.Errorf("JoinFiles() = %q, want %q", got, want)
					}
				}
				cmd := inside(t, g, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 1000 & echo up; wait")
				if s := again.Stats(); s.CPUTotal == 0 {
					t.Errorf("Stats() = %+v, want some CPU", s)
				}
				if err := again.KillAll(2 * time.Minute); err != nil {
					t.Error(err)
				}
				cmd.Wait() //nolint:errcheck // killed
			})
		}
	}
}

func TestNames(t *testing.T) {
	h := hierarchy(t)
	for _, name := range []string{"", ".", "..", "../x", "/x", "a/../b"} {
		if _, err := h.Create(parent, name, cgroup.Limits{}); err == nil {
			t.Errorf("Create(%q) = nil, want an error", name)
		}
		if _, err := h.Open(name, "x"); err == nil {
			t.Errorf("Open(%q) = nil, want an error", name)
		}
	}
}

func TestExisting(t *testing.T) {
	h := hierarchy(t)
	g := create(t, h, cgroup.Limits{})
	if g.Dir() != "" {
		if f, err := h.Existing("", g.Path()); err != nil || f != filepath.Join(g.Dir(), "cgroup.procs") {
			t.Errorf("Existing() = %q, %v", f, err)
		}
	}
	if _, err := h.Existing("", "/no/such/group"); err == nil {
		t.Error("Existing() of no group = nil, want an error")
	}
	if _, err := h.Existing("nonsense", g.Path()); err == nil {
		t.Error("Existing() of no controller = nil, want an error")
	}
}

func TestNotRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("is root")
	}
	h, err := cgroup.Detect()
	if err != nil {
		t.Skip(err)
	}
	if err := h.Usable(); err == nil || !strings.Contains(err.Error(), "root") {
		t.Errorf("Usable() = %v, want an error that says why", err)
	}
}
