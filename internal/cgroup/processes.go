package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Processes lists the processes in the group of a process, and in those below it. The group may be of another manager,
// such as a container runtime. The root group is an error, because it is that of everything.
func (h *Hierarchy) Processes(pid int) ([]int, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, fmt.Errorf("read the control group of process %d: %w", pid, err)
	}
	if h.delegated != "" {
		return nil, fmt.Errorf("list the control group of process %d: %w: the agent does not run as root", pid, ErrUnavailable)
	}
	for _, c := range append([]string{""}, trackers...) {
		mount := h.V1[c]
		if c == "" {
			mount = h.V2
		}
		path, ok := pathIn(string(raw), c)
		if mount == "" || !ok || path == "/" || strings.Contains(path, "..") {
			continue
		}
		return pidsBelow(filepath.Join(mount, path), path)
	}
	return nil, fmt.Errorf("list the control group of process %d: %w: it is in the root group", pid, ErrUnavailable)
}

// pathIn returns the path in /proc/PID/cgroup, whose lines are "number:controllers:path", for a version 1 controller,
// or for version 2 if the controller is empty.
func pathIn(lines, controller string) (path string, ok bool) {
	for line := range strings.Lines(lines) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			if name == controller {
				return parts[2], true
			}
		}
	}
	return "", false
}
