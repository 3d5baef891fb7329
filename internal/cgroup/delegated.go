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

// An ordinary user's agent can limit tasks in a group of the version 2 tree that was
// delegated to that user, by systemd (Delegate=yes) or by hand: the one that the agent
// was started in. It is divided as the root of the tree is for root:
//
//	<delegated>/nomad-agent.scope   the agent, moved there: only leaves have processes
//	<delegated>/nomad.slice/…       tasks, and the supervisor
const agentLeaf = "nomad-agent.scope"

// leaves are where our own processes may be below the delegated group.
var leaves = []string{"/" + agentLeaf, "/nomad.slice/supervise"}

// delegation returns the hierarchy that begins at the group delegated to this user.
func delegation(v2 string) (*Hierarchy, error) {
	if v2 == "" {
		return nil, fmt.Errorf("%w: without root it takes a delegated group of version 2, and the host has no such tree", ErrUnavailable)
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

// ownGroup finds the version 2 group in /proc/self/cgroup, above our own leaves.
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

// vacate moves the processes of the delegated group into a leaf: a group that has any
// cannot pass controllers on.
func (h *Hierarchy) vacate() error {
	leaf := filepath.Join(h.V2, agentLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the agent's own group: %w", err)
	}
	for { // what was forked meanwhile is in the next list
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
