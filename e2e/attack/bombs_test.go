package attack_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// Limits around all bombs, in addition to their own.
const (
	outerProcesses = 2000
	outerMemory    = 1 << 30
	pidsLimit      = 64
)

// bomber is a host that limits all tasks together, with a neighbour that must survive.
type bomber struct {
	*host
	neighbour *api.AllocationListStub
}

// TestBombs runs tasks that use more than their resources.
func TestBombs(t *testing.T) {
	needs(t, 1)
	g := newGround(t)
	h := g.startHost(fmt.Sprintf("pids_limit = %d", pidsLimit), "")
	b := &bomber{host: h}
	b.neighbour = h.run(job("neighbour", "service", situation{}, h.task("neighbour", situation{}, "stay", canary)), "running")
	h.bound()
	for _, bomb := range []struct {
		name string
		test func(*bomber, *testing.T)
	}{{"fork", (*bomber).fork}, {"memory", (*bomber).memory}, {"cpu", (*bomber).cpu}, {"log", (*bomber).logs},
		{"descriptors", (*bomber).descriptors}, {"secrets", (*bomber).secrets}, {"files", (*bomber).files}} {
		t.Run(bomb.name, func(t *testing.T) {
			h.t = t
			defer func() { h.t = g.t }()
			bomb.test(b, t)
			b.survived(t)
		})
	}
}

// bound sets limits on the parent group of the agent's tasks.
func (h *host) bound() {
	t := h.t
	t.Helper()
	set := 0
	for _, dir := range h.groups("") {
		for name, value := range map[string]int{"pids.max": outerProcesses, "memory.max": outerMemory, "memory.limit_in_bytes": outerMemory} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(strconv.Itoa(value)), 0); err == nil {
				set++
			}
		}
	}
	if set != 2 {
		t.Fatalf("%d limits around the test, want one of processes and one of memory", set)
	}
}

// bomb returns a job with a bomb and this many MiB of memory.
func (b *bomber) bomb(memory int, args ...string) *api.Job {
	task := b.task("t", situation{}, append([]string{"bomb"}, args...)...)
	task.Resources.MemoryMB = &memory
	kind := "batch"
	if args[0] == "fork" || args[0] == "cpu" {
		kind = "service"
	}
	return job("bomb-"+args[0], kind, situation{}, task)
}

// survived checks that neighbour, agent and machine work.
func (b *bomber) survived(t *testing.T) {
	t.Helper()
	al, _, err := b.Client.Allocations().Info(b.neighbour.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if st := al.TaskStates["neighbour"]; al.ClientStatus != "running" || st.Restarts != 0 {
		t.Errorf("the neighbour is %s after %d restarts", al.ClientStatus, st.Restarts)
	}
	if out, err := exec.Command(b.probe, "uid").CombinedOutput(); err != nil {
		t.Errorf("the machine cannot start a process: %v %s", err, out)
	}
}

func (b *bomber) stop(id string) {
	b.t.Helper()
	if _, _, err := b.Client.Jobs().Deregister(id, false, nil); err != nil {
		b.t.Fatal(err)
	}
	b.within("the end of "+id, func() bool {
		allocs, _, err := b.Client.Jobs().Allocations(id, true, nil)
		return err == nil && len(allocs) == 1 && allocs[0].ClientStatus != "running"
	})
}

// value reads a number of a task's control group, from the first file that exists.
func (b *bomber) value(al *api.AllocationListStub, names ...string) (n int64, ok bool) {
	for _, dir := range b.groups("*/" + al.ID + ".*.scope") {
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				continue
			}
			if n, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64); err == nil {
				return n, true
			}
		}
	}
	return 0, false
}

func (b *bomber) fork(t *testing.T) {
	al := b.run(b.bomb(256, "fork", "1000"), "running")
	text := ""
	b.within("the bomb", func() bool { text = b.log(al, "t"); return strings.HasSuffix(text, "\n") })
	if !strings.Contains(text, "temporarily unavailable") {
		t.Errorf("the bomb printed %q, want an end by its limit", text)
	}
	if max, ok := b.value(al, "pids.max"); !ok || max > pidsLimit+1 { // one is the first process of the namespace
		t.Errorf("pids.max = %d, %v, want %d", max, ok, pidsLimit)
	}
	if now, ok := b.value(al, "pids.current"); !ok || now > pidsLimit+1 || now < pidsLimit/2 {
		t.Errorf("%d processes (%v), want about %d and no more", now, ok, pidsLimit)
	}
	b.survived(t) // while the bomb runs
	b.stop("bomb-fork")
}

func (b *bomber) memory(t *testing.T) {
	al := b.run(b.bomb(64, "memory", "512"), "failed")
	if text := b.log(al, "t"); text != "" {
		t.Errorf("the bomb printed %q, want it dead before", text)
	}
	for _, ev := range al.TaskStates["t"].Events {
		if ev.Type == "Terminated" {
			if ev.Details["oom_killed"] != "true" || !strings.Contains(ev.DisplayMessage, "OOM Killed") {
				t.Errorf("event %q %v, want OOM Killed", ev.DisplayMessage, ev.Details)
			}
			return
		}
	}
	t.Error("no event of the end")
}

// cpu measures the CPU time of a task that uses all it can get.
func (b *bomber) cpu(t *testing.T) {
	al := b.run(b.bomb(64, "cpu", "4"), "running")
	b.within("the hog", func() bool { return b.log(al, "t") != "" })
	quota, ok := b.value(al, "cpu.cfs_quota_us", "cpu.max")
	if !ok {
		t.Fatal("no quota")
	}
	share := float64(quota) / 100_000
	began, was := time.Now(), b.used(al) // at the end in reverse order, so that the usage falls within the time
	b.within("some seconds", func() bool { return time.Since(began) > 3*time.Second })
	had := b.used(al) - was
	got := had.Seconds() / time.Since(began).Seconds()
	// Up to two more periods may fall within the time.
	if got > share*1.1+0.1 || got == 0 {
		t.Errorf("the task had %.2f processors, its share is %.2f", got, share)
	}
	t.Logf("%.2f processors of %.2f", got, share)
	b.stop("bomb-cpu")
}

// used returns the CPU time of a task.
func (b *bomber) used(al *api.AllocationListStub) time.Duration {
	b.t.Helper()
	if ns, ok := b.value(al, "cpuacct.usage"); ok {
		return time.Duration(ns)
	}
	for _, dir := range b.groups("*/" + al.ID + ".*.scope") {
		text, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
		var us int64
		if _, scan := fmt.Sscanf(string(text), "usage_usec %d", &us); err == nil && scan == nil {
			return time.Duration(us) * time.Microsecond
		}
	}
	b.t.Fatal("no control group has the CPU time")
	return 0
}

func (b *bomber) logs(t *testing.T) {
	j := b.bomb(64, "log", "40")
	files, size := 2, 1
	j.TaskGroups[0].Tasks[0].LogConfig = &api.LogConfig{MaxFiles: &files, MaxFileSizeMB: &size}
	disk := 10
	j.TaskGroups[0].EphemeralDisk = &api.EphemeralDisk{SizeMB: &disk}
	al := b.run(j, "complete")
	found, err := filepath.Glob(filepath.Join(b.targets.DataDir, "alloc", al.ID, "alloc/logs/t.stdout.*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("logs: %v, %v", found, err)
	}
	total := int64(0)
	for _, f := range found {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		total += st.Size()
	}
	if limit := int64(files*size) << 20; total > limit+64<<10 || len(found) > files {
		t.Errorf("%d bytes in %d files, want at most %d in %d", total, len(found), limit, files)
	}
}

func (b *bomber) descriptors(t *testing.T) {
	al := b.run(b.bomb(256, "fd", "3000000"), "complete")
	if text := b.log(al, "t"); !strings.Contains(text, "too many open files") {
		t.Errorf("the bomb printed %q, want an end by its limit", text)
	}
}

func (b *bomber) secrets(t *testing.T) {
	al := b.run(b.bomb(64, "disk", "8"), "complete")
	var kib int
	text := b.log(al, "t")
	if _, err := fmt.Sscanf(text, "secrets %d KiB", &kib); err != nil || kib > 1024 || !strings.Contains(text, "no space left") {
		t.Errorf("the bomb printed %q, want at most 1024 KiB", text)
	}
}

// files checks that small files are charged to the task as memory.
func (b *bomber) files(t *testing.T) {
	if os.Getenv("ATTACK_GUEST") != "" {
		t.Skip("takes minutes on an emulated machine")
	}
	j := b.bomb(64, "files", "1000000")
	if _, _, err := b.Client.Jobs().Register(j, nil); err != nil {
		t.Fatal(err)
	}
	var al *api.AllocationListStub
	b.within("the end of the bomb", func() bool {
		allocs, _, err := b.Client.Jobs().Allocations(*j.ID, true, nil)
		if err != nil || len(allocs) != 1 {
			return false
		}
		al = allocs[0]
		return al.ClientStatus == "complete" || al.ClientStatus == "failed"
	})
	text := b.log(al, "t")
	if al.ClientStatus == "complete" && !strings.Contains(text, "no space left") {
		t.Errorf("the bomb printed %q, want no space left, or an OOM kill", text)
	}
	t.Log(al.ClientStatus, text)
}
