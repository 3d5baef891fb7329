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

// Limits on all servers of a cluster together.
const (
	memoryMax    = 4 << 30
	processesMax = 2000
)

// groupParent is the parent of the groups of all clusters of the machine.
const groupParent = "open-nomad-faults"

// newGroup creates the group that limits all servers of a cluster. Its name begins with the process
// ID of the test.
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

// sweep removes sibling groups of g whose test was killed, together with its servers.
func sweep(h *cgroup.Hierarchy, g *cgroup.Group) {
	for _, dir := range dirs(g) {
		groups, _ := os.ReadDir(filepath.Dir(dir)) // unreadable groups remain
		for _, e := range groups {
			text, _, ok := strings.Cut(e.Name(), "-")
			pid, err := strconv.Atoi(text)
			if !ok || err != nil || syscall.Kill(pid, 0) == nil {
				continue
			}
			if dead, err := h.Open(groupParent, e.Name()); err == nil {
				dead.Remove() // fails if a process remains in it
			}
		}
	}
}

// forgetParents removes the parent groups, unless other clusters use them.
func forgetParents(g *cgroup.Group) {
	for _, d := range dirs(g) {
		os.Remove(filepath.Dir(d)) // not empty: another cluster runs
	}
}

// dirs returns the directories of a group in all hierarchies.
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

// enter adds a process to every hierarchy of a group.
func enter(g *cgroup.Group, pid int) error {
	for _, d := range dirs(g) {
		if err := os.WriteFile(filepath.Join(d, "cgroup.procs"), fmt.Append(nil, pid), 0); err != nil {
			return fmt.Errorf("bound server: %w", err)
		}
	}
	return nil
}
