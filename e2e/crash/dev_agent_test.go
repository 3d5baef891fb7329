package crash_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// TestStoppedDevAgentLeavesNothing stops dev agents while their tasks start, have just ended, wait
// for a restart or run. No mount, file or process remains.
func TestStoppedDevAgentLeavesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: secrets are mounted")
	}
	for _, c := range []struct {
		name, kind, script string
		when               func([]*api.AllocationListStub) bool // condition for stopping the agent
	}{
		{"placed", "batch", "true", count("", 1)},
		{"first ended", "batch", "true", count(api.AllocClientStatusComplete, 1)},
		{"some ended", "batch", "true", count(api.AllocClientStatusComplete, 3)},
		{"all ended", "batch", "true", count(api.AllocClientStatusComplete, 6)},
		{"waiting for a restart", "service", "exit 1", waits},
		{"running", "service", "exec sleep 1000", count(api.AllocClientStatusRunning, 6)},
	} {
		for _, end := range []struct {
			name string
			stop func(*cluster.Agent) error
		}{{"SIGTERM", (*cluster.Agent).Stop}, {"SIGINT", (*cluster.Agent).Interrupt}} {
			t.Run(c.name+" "+end.name, func(t *testing.T) {
				dir := t.TempDir()
				if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // tasks run as other users
					t.Fatal(err)
				}
				a := harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-dev"}, Env: []string{"TMPDIR=" + dir}})
				if _, _, err := a.Client.Jobs().Register(shortJob(c.kind, c.script), nil); err != nil {
					t.Fatal(err)
				}
				untilAllocs(t, a, "short", c.when)
				if err := end.stop(a); err != nil {
					t.Fatal(err)
				}
				checkNothingOf(t, dir)
			})
		}
	}
}

// shortJob returns a job of six sandboxed tasks.
func shortJob(kind, script string) *api.Job {
	n, cpu, memory := 6, 1, 10
	job := harness.OneTask("short", "/bin/sh", "-c", script)
	job.Type = &kind
	g := job.TaskGroups[0]
	g.Count, g.RestartPolicy, g.ReschedulePolicy = &n, nil, nil
	g.Tasks[0].Resources = &api.Resources{CPU: &cpu, MemoryMB: &memory}
	return job
}

// waits reports whether the task of an allocation has failed and waits for its restart.
func waits(all []*api.AllocationListStub) bool {
	return slices.ContainsFunc(all, func(al *api.AllocationListStub) bool {
		state := al.TaskStates["t"]
		return state != nil && slices.ContainsFunc(state.Events, func(e *api.TaskEvent) bool { return e.Type == api.TaskRestarting })
	})
}

// count reports whether this number of allocations have the status, or any status if it is empty.
func count(status string, want int) func([]*api.AllocationListStub) bool {
	return func(all []*api.AllocationListStub) bool {
		n := 0
		for _, al := range all {
			if status == "" || al.ClientStatus == status {
				n++
			}
		}
		return n >= want
	}
}

// untilAllocs returns as soon as the allocations of a job satisfy ok.
func untilAllocs(t *testing.T, a *cluster.Agent, job string, ok func([]*api.AllocationListStub) bool) {
	t.Helper()
	q := (&api.QueryOptions{WaitTime: harness.Patience}).WithContext(t.Context())
	for {
		all, meta, err := a.Client.Jobs().Allocations(job, false, q)
		if err != nil {
			t.Fatal(err)
		}
		if ok(all) {
			return
		}
		if q.WaitIndex == meta.NextIndex() {
			t.Fatalf("nothing happened to %d allocations of %s within %s", len(all), job, harness.Patience)
		}
		q.WaitIndex = meta.NextIndex()
	}
}

// checkNothingOf searches for remains of an agent whose temporary directory was in dir.
func checkNothingOf(t *testing.T, dir string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir) {
			t.Errorf("still mounted: %s", line)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains([]string{"agent.log", "ports.hcl"}, e.Name()) {
			t.Errorf("still there: %s", e.Name())
		}
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range commands {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), dir) { // otherwise it has ended
			t.Errorf("still running: %s: %q", name, text)
		}
	}
}
