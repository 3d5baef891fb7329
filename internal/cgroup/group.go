package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Group is one control group below a parent.
type Group struct {
	h    *Hierarchy
	rel  string   // parent/name
	dirs []string // directories of Create; nil after Open: search
	has  []string // version 2 controllers; nil: read them
	old  bool     // existed before Create
}

// Create makes a group and sets its limits. It reuses an existing group, with its processes, and
// then also resets the limits that are not set. On error it leaves no empty group behind.
func (h *Hierarchy) Create(parent, name string, l Limits) (*Group, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	rel := parent + "/" + name
	g := &Group{h: h, rel: rel, dirs: h.needed(rel, l)}
	if err := g.mkdir(); errors.Is(err, fs.ErrNotExist) {
		if _, err := h.prepare(parent); err != nil {
			return nil, err
		}
		err = g.mkdir()
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	g.has = h.controllers2(rel)
	if err := g.limit(l); err != nil {
		err = fmt.Errorf("limit group %s: %w", rel, err)
		if rerr := g.Remove(); rerr != nil && !(g.old && errors.Is(rerr, unix.EBUSY)) {
			err = errors.Join(err, rerr)
		}
		return nil, err
	}
	return g, nil
}

// Reused reports whether the group existed before Create. Its counters then include earlier
// processes.
func (g *Group) Reused() bool { return g.old }

// Sub makes a group without limits below g, to track and kill its processes. It is in the version 2
// tree only; its processes join the version 1 groups of g.
func (g *Group) Sub(name string) (*Group, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if g.Dir() == "" {
		return nil, fmt.Errorf("%w: a group below %s needs a version 2 tree", ErrUnavailable, g.rel)
	}
	sub := &Group{h: g.h, rel: g.rel + "/" + name}
	sub.dirs = []string{sub.Dir()}
	return sub, sub.mkdir()
}

// Open returns a group that Create made earlier.
func (h *Hierarchy) Open(parent, name string) (*Group, error) {
	if err := errors.Join(checkName(parent), checkName(name)); err != nil {
		return nil, err
	}
	return &Group{h: h, rel: parent + "/" + name}, nil
}

func (g *Group) mkdir() error {
	for _, d := range g.dirs {
		err := os.Mkdir(d, 0o755)
		switch {
		case errors.Is(err, fs.ErrExist):
			g.old = true
		case err != nil:
			return fmt.Errorf("create group: %w", err)
		}
	}
	if m, ok := g.h.V1["cpuset"]; ok && slices.Contains(g.dirs, filepath.Join(m, g.rel)) {
		return inheritCPUSet(m, g.rel)
	}
	return nil
}

// Path returns the group's path below the root of every tree of the host.
func (g *Group) Path() string { return filepath.Join("/", g.h.delegated, g.rel) }

// Dir returns the group's directory in the version 2 tree, or "" without one. A process can be
// created in it (CLONE_INTO_CGROUP).
func (g *Group) Dir() string {
	if g.h.V2 == "" {
		return ""
	}
	return filepath.Join(g.h.V2, g.rel)
}

// JoinFiles returns the version 1 files to which a thread writes "0" to join the group. The thread
// that will execute the task joins by itself, which avoids a grace period in the kernel.
func (g *Group) JoinFiles() []string {
	var out []string
	known := g.dirs != nil
	for _, d := range g.where() {
		file := filepath.Join(d, "tasks")
		if d == g.Dir() || !known && unix.Access(file, unix.F_OK) != nil {
			continue
		}
		out = append(out, file)
	}
	return out
}

// where returns the directories that the group has, or may have.
func (g *Group) where() []string {
	if g.dirs != nil {
		return g.dirs
	}
	return g.h.dirs(g.rel)
}

// controller returns the directory of the group for controller c, like Hierarchy.controller.
func (g *Group) controller(c string) (dir string, version int) {
	if _, ok := g.h.V1[c]; ok || g.has == nil {
		return g.h.controller(c, g.rel)
	}
	if !slices.Contains(g.has, c) {
		return "", 0
	}
	return g.Dir(), 2
}

// Existing returns the file to join an operator's group, by its path below the root of the version
// 2 tree (controller "") or of a version 1 controller.
func (h *Hierarchy) Existing(controller, path string) (joinFile string, err error) {
	rel := strings.Trim(path, "/")
	if err := checkName(rel); err != nil {
		return "", err
	}
	mount, file := h.V2, "cgroup.procs"
	if controller != "" {
		mount, file = h.V1[controller], "tasks"
	}
	if mount == "" {
		return "", fmt.Errorf("%w: the host has no tree for group %s", ErrUnavailable, path)
	}
	joinFile = filepath.Join(mount, rel, file)
	if _, err := os.Stat(joinFile); err != nil {
		return "", fmt.Errorf("find group %s: %w", path, err)
	}
	return joinFile, nil
}

// Enter moves a process into the group, in the version 2 tree only. Service managers use that tree
// to find the processes to stop.
func (g *Group) Enter(pid int) error {
	if g.Dir() == "" {
		return nil
	}
	return write(g.Dir(), "cgroup.procs", strconv.Itoa(pid))
}

// Pids lists the processes of the group and of groups below it.
func (g *Group) Pids() ([]int, error) { return pidsBelow(g.tracker(), g.rel) }

// pidsBelow lists the processes of the group in a directory and of groups below it.
func pidsBelow(dir, name string) ([]int, error) {
	var pids []int
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		s, err := read(path, "cgroup.procs")
		if err != nil {
			return err
		}
		for _, f := range strings.Fields(s) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				return fmt.Errorf("process %q of group %s: %w", f, name, err)
			}
			pids = append(pids, pid)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
		return nil, fmt.Errorf("list processes of group %s: %w", name, err)
	}
	return pids, nil
}

// Exists reports whether the group exists.
func (g *Group) Exists() bool { return unix.Access(g.tracker(), unix.F_OK) == nil }

// trackers are the version 1 controllers whose tree is used to list processes, in this order.
var trackers = []string{"freezer", "pids", "memory", "cpu"}

// tracker returns the directory with the list of processes.
func (g *Group) tracker() string {
	if d := g.Dir(); d != "" {
		return d
	}
	for _, c := range trackers {
		if m, ok := g.h.V1[c]; ok {
			return filepath.Join(m, g.rel)
		}
	}
	return g.where()[0]
}

// Kill sends SIGKILL to every process of the group. It does not wait for their end.
func (g *Group) Kill() error {
	if d := g.Dir(); d != "" {
		err := write(d, "cgroup.kill", "1") // Linux 5.14
		if err == nil {
			return nil
		}
		if _, gone := os.Stat(d); errors.Is(gone, fs.ErrNotExist) {
			return nil
		}
	}
	return g.killEach()
}

// killEach freezes the group, so that no process forks meanwhile, kills each process and thaws the
// group.
func (g *Group) killEach() error {
	thaw := g.freeze()
	defer thaw()
	pids, err := g.Pids()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
			return fmt.Errorf("kill process %d of group %s: %w", pid, g.rel, err)
		}
	}
	return nil
}

// freeze stops the group and returns the function that thaws it. A failure is ignored, since the
// caller kills until no process is left.
func (g *Group) freeze() (thaw func()) {
	dir, file, on, off := g.Dir(), "cgroup.freeze", "1", "0"
	if m, ok := g.h.V1["freezer"]; ok && dir == "" {
		dir, file, on, off = filepath.Join(m, g.rel), "freezer.state", "FROZEN", "THAWED"
	}
	if err := write(dir, file, on); err != nil {
		return func() {}
	}
	return func() { write(dir, file, off) } //nolint:errcheck // fails only if the group no longer exists
}

// Remove removes the group from every tree. The group must be empty: call KillAll first.
func (g *Group) Remove() error {
	var errs []error
	for _, d := range g.where() {
		if err := removeTree(d); err != nil {
			errs = append(errs, fmt.Errorf("remove group: %w", err))
		}
	}
	return errors.Join(errs...)
}

// removeTree removes a group and the groups that a task created below it.
func removeTree(dir string) error {
	err := unix.Rmdir(dir)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	entries, rerr := os.ReadDir(dir)
	if rerr != nil {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// KillAll kills until the group is empty, for at most patience.
func (g *Group) KillAll(patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		pids, err := g.Pids()
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := g.Kill(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes of group %s have not ended after SIGKILL", len(pids), g.rel)
		}
		// No notification of an empty group works in both versions.
		time.Sleep(wait)
	}
}
