package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// An unprivileged agent can limit tasks in a version 2 group that was delegated to its user, by
// systemd (Delegate=yes) or by hand. This is the group that the agent was started in. It is divided
// like the root of the tree for a root agent:
//
//	<delegated>/nomad-agent.scope   the agent, moved there: only leaves have processes
//	<delegated>/nomad.slice/…       tasks, and the supervisor
const agentLeaf = "nomad-agent.scope"

// leaves are the groups of our own processes below the delegated group.
var leaves = []string{"/" + agentLeaf, "/nomad.slice/supervise"}

// delegation returns the hierarchy below the group delegated to this user.
func delegation(v2 string) (*Hierarchy, error) {
	if v2 == "" {
		return nil, fmt.Errorf("%w: an agent without root needs a delegated group of version 2, and the host has no version 2 tree",
			ErrUnavailable)
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find the agent's control group: %w", err)
	}
	own, ok := ownGroup(string(text))
	if !ok {
		return nil, fmt.Errorf("%w: the agent is in no group of version 2", ErrUnavailable)
	}
	h := &Hierarchy{V2: filepath.Join(v2, own), V1: map[string]string{}, delegated: own}
	for _, f := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		if err := unix.Access(filepath.Join(h.V2, f), unix.W_OK); err != nil {
			return nil, fmt.Errorf("%w: the agent's group %s is not delegated to its user: %s: %w", ErrUnavailable, own, filepath.Join(h.V2, f), err)
		}
	}
	return h, nil
}

// ownGroup returns the version 2 group of /proc/self/cgroup, without our own leaves.
func ownGroup(text string) (string, bool) {
	for line := range strings.Lines(text) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for _, leaf := range leaves {
			path = strings.TrimSuffix(path, leaf)
		}
		return filepath.Clean("/" + path), true
	}
	return "", false
}

// vacate moves the processes of the delegated group into a leaf: a group with processes cannot
// enable controllers for its children.
func (h *Hierarchy) vacate() error {
	leaf := filepath.Join(h.V2, agentLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the agent's own group: %w", err)
	}
	for { // processes forked meanwhile are in the next list
		pids, err := read(h.V2, "cgroup.procs")
		if err != nil || pids == "" {
			return err
		}
		for _, pid := range strings.Fields(pids) {
			if err := write(leaf, "cgroup.procs", pid); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("move process %s out of the delegated group: %w", pid, err)
			}
		}
	}
}
