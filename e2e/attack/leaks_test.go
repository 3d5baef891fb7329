package attack_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// Number of rounds and of tasks per round in TestLeaks, with fewer UIDs than tasks in total.
const (
	leakRounds, leakTasks = 5, 40
	leakUsers             = 60
	leakUser              = 85_600 // the first; tests of other packages run at the same time, so they have others
)

// holdings counts the resources that tasks use on a host.
type holdings struct {
	mounts      int // of the machine
	agent       int // descriptors of the agent
	supervisor  int
	namespaces  int // distinct namespaces of all processes
	reserved    int // descriptors of namespaces in the agent and the supervisor
	groups      int
	allocations int // allocation directories
}

// After hundreds of tasks no resource remains in use.
func TestLeaks(t *testing.T) {
	needs(t, 1)
	if testing.Short() {
		t.Skip("starts 200 tasks")
	}
	g := newGround(t)
	g.clientBlock = fmt.Sprintf("users {\n dynamic_user_min = %d\n dynamic_user_max = %d\n}\n", leakUser, leakUser+leakUsers-1)
	h := g.startHost("", "")
	h.round("warm", 2)
	h.collect()
	before := h.holds()
	for i := range leakRounds {
		h.round(fmt.Sprintf("round-%d", i), leakTasks)
		h.collect()
	}
	var after holdings
	defer func() {
		if t.Failed() {
			t.Logf("before %+v, after %+v", before, after)
		}
	}()
	h.within("everything to be given back", func() bool {
		after = h.holds()
		return !after.more(before)
	})
	t.Logf("after %d tasks: %+v", leakRounds*leakTasks, after)
}

// more reports whether more resources are in use than before.
func (h holdings) more(than holdings) bool {
	const slack = 3 // connections that the agent keeps, such as those of this test
	return h.mounts > than.mounts || h.agent > than.agent+slack || h.supervisor > than.supervisor || h.namespaces > than.namespaces ||
		h.reserved > than.reserved || h.groups > than.groups || h.allocations > than.allocations
}

// round runs n tasks until they end.
func (h *host) round(id string, n int) {
	t := h.t
	t.Helper()
	task := h.task("t", situation{}, "uid")
	cpu, memory := 20, 32
	task.Resources = &api.Resources{CPU: &cpu, MemoryMB: &memory}
	j := job(id, "batch", situation{}, task)
	j.TaskGroups[0].Count = &n
	if _, _, err := h.Client.Jobs().Register(j, nil); err != nil {
		t.Fatal(err)
	}
	h.within(fmt.Sprintf("the end of %d tasks", n), func() bool {
		allocs, _, err := h.Client.Jobs().Allocations(id, true, nil)
		if err != nil {
			return false
		}
		done := 0
		for _, a := range allocs {
			if a.ClientStatus == "failed" {
				for _, ev := range a.TaskStates["t"].Events {
					t.Log(ev.Type, ev.DisplayMessage)
				}
				t.Fatalf("%s failed", a.ID)
			}
			if a.ClientStatus == "complete" {
				done++
			}
		}
		return done == n
	})
	if _, _, err := h.Client.Jobs().Deregister(id, true, nil); err != nil {
		t.Fatal(err)
	}
}

// collect waits until the node has removed purged allocations.
func (h *host) collect() {
	h.within("the allocations to be removed", func() bool {
		if err := h.Client.System().GarbageCollect(); err != nil {
			h.t.Error(err)
		}
		left, err := os.ReadDir(filepath.Join(h.targets.DataDir, "alloc"))
		return err == nil && len(left) == 0
	})
}

func (h *host) holds() holdings {
	supervisor := h.supervisor()
	out := holdings{
		mounts: mountsBelow(h.t, h.dir), groups: len(h.groups("*/*.scope")),
		supervisor: len(descriptors(supervisor)),
	}
	agent := descriptors(h.Pid())
	out.agent = len(agent)
	for _, target := range append(agent, descriptors(supervisor)...) {
		if strings.Contains(target, "ns:[") || strings.HasPrefix(target, "anon_inode:[pidfd") {
			out.reserved++
		}
	}
	seen := map[string]bool{}
	links, err := filepath.Glob("/proc/[0-9]*/ns/*")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, link := range links {
		if h.ours(link) {
			if target, err := os.Readlink(link); err == nil {
				seen[target] = true
			}
		}
	}
	out.namespaces = len(seen)
	left, err := os.ReadDir(filepath.Join(h.targets.DataDir, "alloc"))
	if err != nil {
		h.t.Fatal(err)
	}
	out.allocations = len(left)
	return out
}

// ours reports whether a file of /proc belongs to this agent, its supervisor or their tasks: other
// processes of the machine are ignored.
func (h *host) ours(name string) bool {
	dir := strings.Join(strings.Split(name, "/")[:3], "/")
	text, err := os.ReadFile(filepath.Join(dir, "cgroup"))
	if err == nil && strings.Contains(string(text), "/"+h.slice+"/") {
		return true
	}
	return dir == fmt.Sprintf("/proc/%d", h.Pid()) || dir == fmt.Sprintf("/proc/%d", h.supervisor())
}

// mountsBelow counts the mounts below a directory in the host's mount namespace.
func mountsBelow(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), " "+dir+"/")
}

// descriptors lists the open descriptors of a process.
func descriptors(pid int) []string {
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return nil
	}
	var out []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil {
			out = append(out, target)
		}
	}
	return out
}
