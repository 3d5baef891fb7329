package harness

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// endAbandoned ends what a failed test has left on the node of a stopped agent: processes of tasks, their supervisor, and mounts.
// Tasks outlive their agent, and the jobs of a failed test may not be purged. dir is the directory of the agent.
func endAbandoned(t *testing.T, dir string) {
	t.Helper()
	if !filepath.IsAbs(dir) || filepath.Dir(dir) == "/" {
		t.Fatalf("%q is not the directory of an agent of a test", dir)
	}
	none := 0 // searches without a result; one misses a process that is executing a program at that moment
	Within(t, Patience, "the tasks below "+dir+" end", func() bool {
		none++
		for _, pid := range abandoned(t, dir) {
			none = 0
			kill(t, dir, pid)
		}
		return none == 3
	})
	// The supervisor comes last: with it, new children of tasks are found.
	for pid, args := range commands(t) {
		if supervises(args, dir) {
			kill(t, dir, pid)
		}
	}
	unmountBelow(t, dir)
}

// abandoned returns the processes of tasks below the directory of an agent.
func abandoned(t *testing.T, dir string) (tasks []int) {
	t.Helper()
	all := commands(t)
	for pid := range all {
		if pid != os.Getpid() && !supervises(all[pid], dir) && (supervised(pid, all, dir) || hasAllocDir(pid, dir)) {
			tasks = append(tasks, pid)
		}
	}
	return tasks
}

// supervises reports whether the arguments are those of the supervisor of an agent.
func supervises(args []string, dir string) bool {
	return len(args) > 1 && args[0] == "nomad-supervise" && strings.HasPrefix(args[1], dir+"/")
}

// supervised reports whether the supervisor of an agent is an ancestor of a process.
func supervised(pid int, all map[int][]string, dir string) bool {
	for pid = parent(pid); pid > 1; pid = parent(pid) {
		if supervises(all[pid], dir) {
			return true
		}
	}
	return false
}

// parent returns the parent of a process, 0 if the process has ended.
func parent(pid int) int {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	_, fields, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ") // after the name, which may have spaces
	if list := strings.Fields(fields); len(list) > 1 {
		ppid, _ := strconv.Atoi(list[1]) // 0 for a file of another format
		return ppid
	}
	return 0
}

// hasAllocDir reports whether the environment of a process is that of a task below the directory of an agent. It finds tasks
// whose supervisor was killed.
func hasAllocDir(pid int, dir string) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	return err == nil && slices.ContainsFunc(strings.Split(string(text), "\x00"), func(v string) bool {
		return strings.HasPrefix(v, "NOMAD_ALLOC_DIR="+dir+"/")
	})
}

// kill kills a process of an agent. It finds the process again through a descriptor, so another one with the same ID is safe.
func kill(t *testing.T, dir string, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Error(err)
		return
	}
	defer p.Release() //nolint:errcheck // it closes a descriptor
	all := commands(t)
	if !supervises(all[pid], dir) && !supervised(pid, all, dir) && !hasAllocDir(pid, dir) {
		return // it has ended
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
}

// unmountBelow detaches the mounts below a directory. Otherwise its removal fails, or removes the files of a bind mount.
func unmountBelow(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Error(err)
		return
	}
	for _, line := range slices.Backward(strings.Split(string(text), "\n")) {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[4], dir+"/") {
			continue
		}
		if err := unix.Unmount(fields[4], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("unmount %s: %v", fields[4], err)
		}
	}
}
