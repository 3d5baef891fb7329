package harness

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// LeavesNothing checks that no resource of tasks remains on a node after all its allocations ended: no directory, record,
// control group, process or mount. It collects garbage through the agent. dir is the directory of the node's agent, and
// slice its cgroup_parent.
func LeavesNothing(t *testing.T, a *cluster.Agent, dir, slice string) {
	t.Helper()
	data := filepath.Join(dir, "data")
	WaitCollected(t, a, data)
	Within(t, Patience, "its control groups go", func() bool {
		left, err := cluster.Groups(slice, "*/*.scope")
		return err == nil && len(left) == 0
	})
	Within(t, Patience, "the records of its supervisor go", func() bool {
		left, err := filepath.Glob(filepath.Join(data, "client", "supervise", "tasks", "*"))
		return err == nil && len(left) == 0
	})
	if left := ProcessesIn(t, slice); len(left) > 0 {
		t.Errorf("%d processes are left: %v", len(left), left)
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, dir+"/") && strings.Fields(line)[4] != csiMount(dir) {
			t.Errorf("a mount is left: %s", line)
		}
	}
}

// csiMount returns the mount that an agent with CSI plugins shares with them, and leaves to the next agent.
func csiMount(dir string) string { return filepath.Join(dir, "data", "client", "csi") }

// UnshareCSI unmounts the directory of CSI volumes of agents that have ended, by the directories of the agents. Without it
// these cannot be removed.
func UnshareCSI(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		err := unix.Unmount(csiMount(dir), unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			t.Errorf("unmount %s: %v", csiMount(dir), err)
		}
	}
}

// ProcessesIn returns the group of each process of tasks, by the directory of the process. A process that has ended does
// not count, even if its parent has not waited for it.
func ProcessesIn(t *testing.T, slice string) map[string]string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if args, argsErr := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")); err != nil || argsErr != nil || len(args) == 0 {
			continue // it has ended
		}
		if _, group, found := strings.Cut(string(text), "/"+slice+"/"); found {
			group, _, _ = strings.Cut(group, "\n")
			out[filepath.Dir(file)] = group
		}
	}
	return out
}

// Supervisor returns the process ID of the supervisor of a node, 0 without one. dir is the directory of the node's agent.
func Supervisor(t *testing.T, dir string) (pid int) {
	t.Helper()
	for n, args := range commands(t) {
		if len(args) > 1 && args[0] == "nomad-supervise" && args[1] == filepath.Join(dir, "data", "client", "supervise") {
			pid = n
		}
	}
	return pid
}
