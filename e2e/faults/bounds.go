//go:build linux

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/internal/cgroup"
)

// Bounds of the servers of a cluster, together.
const (
	memoryMax    = 4 << 30
	processesMax = 2000
)

// groupParent is above the groups of all clusters of the machine.
const groupParent = "open-nomad-faults"

// newGroup makes the group that bounds all servers of a cluster. Its name begins
// with the process ID of the test.
func newGroup() (*cgroup.Group, error) {
	h, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	g, err := h.Create(groupParent, fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano()),
		cgroup.Limits{MemoryMax: memoryMax, Processes: processesMax})
	if err != nil {
		return nil, err
	}
	sweep(h, g)
	return g, nil
}

// sweep removes the groups beside g whose test is gone: it was killed, and its
// servers with it.
func sweep(h *cgroup.Hierarchy, g *cgroup.Group) {
	for _, dir := range dirs(g) {
		groups, _ := os.ReadDir(filepath.Dir(dir)) // what can't be read stays
		for _, e := range groups {
			text, _, ok := strings.Cut(e.Name(), "-")
			pid, err := strconv.Atoi(text)
			if !ok || err != nil || syscall.Kill(pid, 0) == nil {
				continue
			}
			if dead, err := h.Open(groupParent, e.Name()); err == nil {
				dead.Remove() // it stays when something is in it
			}
		}
	}
}

// forgetParents removes the groups above, unless other clusters use them.
func forgetParents(g *cgroup.Group) {
	for _, d := range dirs(g) {
		os.Remove(filepath.Dir(d)) // not empty: another cluster runs
	}
}

// dirs are the directories of a group in all trees.
func dirs(g *cgroup.Group) []string {
	var out []string
	if d := g.Dir(); d != "" {
		out = append(out, d)
	}
	for _, f := range g.JoinFiles() {
		out = append(out, filepath.Dir(f))
	}
	return out
}

// enter puts a process into every tree of a group.
func enter(g *cgroup.Group, pid int) error {
	for _, d := range dirs(g) {
		if err := os.WriteFile(filepath.Join(d, "cgroup.procs"), fmt.Append(nil, pid), 0); err != nil {
			return fmt.Errorf("bound server: %w", err)
		}
	}
	return nil
}
