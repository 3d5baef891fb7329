package cgroup_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// content reads a file of a group, by its name in version 1 and in version 2.
func content(t *testing.T, h *cgroup.Hierarchy, g *cgroup.Group, file1, file2 string) string {
	t.Helper()
	c, _, _ := strings.Cut(file1, ".")
	name := filepath.Join(h.V1[c], g.Path(), file1)
	if h.V1[c] == "" {
		name = filepath.Join(h.V2, g.Path(), file2)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// A group with processes gets the limits of its next user, also higher and lower ones, and loses
// those that are not set.
func TestReuse(t *testing.T) {
	h := hierarchy(t)
	g := create(t, h, cgroup.Limits{MemoryMax: 64 << 20, CPUQuota: 50_000, CPUShares: 512, Processes: 20})
	if g.Reused() {
		t.Error("Reused() = true for a new group")
	}
	cmd := inside(t, g, "echo up; sleep 1000; exit")
	defer cmd.Wait() //nolint:errcheck // killed
	defer g.Kill()   //nolint:errcheck // create's cleanup kills it again
	again := func(l cgroup.Limits) error {
		name := g.Path()[strings.LastIndexByte(g.Path(), '/')+1:]
		next, err := h.Create(parent, name, l)
		if err == nil && (!next.Reused() || next.Path() != g.Path()) {
			t.Errorf("Create() returned group %s, reused: %t", next.Path(), next.Reused())
		}
		return err
	}
	for _, mb := range []int64{256, 32, 128} {
		if err := again(cgroup.Limits{MemoryMax: mb << 20, Processes: 30}); err != nil {
			t.Fatalf("limit memory to %d MiB: %v", mb, err)
		}
		if got := content(t, h, g, "memory.limit_in_bytes", "memory.max"); got != fmt.Sprint(mb<<20) {
			t.Errorf("the memory limit is %s, want %d", got, mb<<20)
		}
		if got := content(t, h, g, "pids.max", "pids.max"); got != "30" {
			t.Errorf("the process limit is %s, want 30", got)
		}
	}
	if got := content(t, h, g, "cpu.cfs_quota_us", "cpu.max"); got != "-1" && got != "max 100000" {
		t.Errorf("the CPU quota is %s, want none", got)
	}
	if got := content(t, h, g, "cpu.shares", "cpu.weight"); got != "1024" && got != "100" {
		t.Errorf("the CPU weight is %s, want the default", got)
	}
	if err := again(cgroup.Limits{}); err != nil {
		t.Fatal(err)
	}
	if got := content(t, h, g, "memory.limit_in_bytes", "memory.max"); got == fmt.Sprint(128<<20) {
		t.Errorf("the memory limit is still %s", got)
	}
	if got := content(t, h, g, "pids.max", "pids.max"); got != "max" {
		t.Errorf("the process limit is still %s", got)
	}
}

// A memory limit below the usage of the processes in the group: version 1 refuses it, and the error
// has the usage. Version 2 kills a process.
func TestReuseBelowUsage(t *testing.T) {
	h := hierarchy(t)
	g := create(t, h, cgroup.Limits{MemoryMax: 256 << 20})
	cmd := inside(t, g, `x=$(head -c 50000000 /dev/zero | tr '\0' x); echo up; sleep 1000; exit`)
	defer cmd.Wait() //nolint:errcheck // killed
	defer g.Kill()   //nolint:errcheck // create's cleanup kills it again
	name := g.Path()[strings.LastIndexByte(g.Path(), '/')+1:]
	_, err := h.Create(parent, name, cgroup.Limits{MemoryMax: 16 << 20})
	if h.V1["memory"] == "" {
		if err != nil {
			t.Errorf("Create() = %v", err)
		}
		testpace.Until(t, "a process is killed", func() bool { return g.OOMKills() > 0 })
		return
	}
	if err == nil || !strings.Contains(err.Error(), "the processes in the group use ") {
		t.Errorf("Create() = %v, want an error with the usage", err)
	}
	if pids, err := g.Pids(); err != nil || len(pids) == 0 || g.OOMKills() > 0 {
		t.Errorf("the group has %d processes, %v, and %d were killed: want it unchanged", len(pids), err, g.OOMKills())
	}
}

// A group below another one kills its processes alone, and is removed alone.
func TestSub(t *testing.T) {
	h := hierarchy(t)
	if h.V2 == "" {
		t.Skip("needs a version 2 tree")
	}
	g := create(t, h, cgroup.Limits{})
	outer := inside(t, g, "echo up; sleep 1000; exit")
	defer outer.Wait() //nolint:errcheck // killed
	defer g.Kill()     //nolint:errcheck // create's cleanup kills it again
	sub, err := g.Sub("sub")
	if err != nil {
		t.Fatal(err)
	}
	inner := inside(t, sub, "(setsid sleep 1000) & echo up; sleep 1000; exit")
	pids, err := g.Pids()
	if err != nil || !slices.Contains(pids, outer.Process.Pid) || !slices.Contains(pids, inner.Process.Pid) {
		t.Errorf("the outer group has processes %v, %v, want also those of the inner one", pids, err)
	}
	if err := sub.KillAll(time.Minute); err != nil {
		t.Fatal(err)
	}
	inner.Wait() //nolint:errcheck // killed
	removed(t, sub.Remove)
	if pids, err := g.Pids(); err != nil || !slices.Contains(pids, outer.Process.Pid) {
		t.Errorf("the outer group has processes %v, %v, want those that it had", pids, err)
	}
	if _, err := os.Stat(filepath.Join(g.Dir(), "sub")); !os.IsNotExist(err) {
		t.Errorf("the inner group still exists: %v", err)
	}
}
