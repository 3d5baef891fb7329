// Package cgroup creates control groups for tasks: limits, the list of processes, one kill for all
// of them, and usage statistics.
//
// It supports version 2 (one tree), version 1 (a tree per controller) and the hybrid of both. A
// limit is set in the tree that has its controller. Tracking and killing use the version 2 tree if
// there is one, since only it can kill a group at once.
//
//	v2      <mount>/nomad.slice/<name>                all
//	v1      <mount>/{cpu,cpuacct,memory,pids,cpuset,freezer}/nomad.slice/<name>
//	hybrid  both: controllers in v1, processes, kill and processor time in v2
//
// A group has a cpuset only for reserved cores. In the hybrid it has neither freezer nor cpuacct.
// Without root the package supports version 2 only, below a group delegated to the user.
//
// The package writes only below the parent that it is given. It fails closed: a limit without its
// controller is an error. It has no goroutines, and no state except the tree.
package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrUnavailable means that control groups cannot be used here; the wrapping error has the reason.
var ErrUnavailable = errors.New("control groups are not available")

// controllers are those that this package uses, by their version 1 names.
var controllers = []string{"cpu", "cpuacct", "memory", "pids", "cpuset", "freezer"}

// Hierarchy holds the mount points of the host's control groups.
type Hierarchy struct {
	V2 string            // mount of the version 2 tree, "" if none
	V1 map[string]string // controller → mount, for the controllers in use

	delegated string // path of V2 in the host's tree, if it is delegated to an unprivileged user
	lacks     error  // why an unprivileged user has no delegated group
}

// Detect returns the hierarchy of this host, which it reads once.
func Detect() (*Hierarchy, error) { return detect() }

var detect = sync.OnceValues(func() (*Hierarchy, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find control groups: %w", err)
	}
	defer f.Close()
	h := &Hierarchy{V1: map[string]string{}}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		h.addMount(lines.Text())
	}
	if h.V2 == "" && len(h.V1) == 0 {
		return nil, fmt.Errorf("%w: no cgroup file system is mounted", ErrUnavailable)
	}
	if os.Geteuid() != 0 {
		own, err := delegation(h.V2)
		if err == nil {
			return own, nil
		}
		h.lacks = err
	}
	return h, nil
})

// addMount parses one line of mountinfo:
//
//	36 35 98:0 <root> <mount point> <options> [optional fields] - <type> <source> <super options>
func (h *Hierarchy) addMount(line string) {
	before, after, ok := strings.Cut(line, " - ")
	left, right := strings.Fields(before), strings.Fields(after)
	if !ok || len(left) < 5 || len(right) < 3 || left[3] != "/" {
		return
	}
	switch right[0] {
	case "cgroup2":
		if h.V2 == "" {
			h.V2 = left[4]
		}
	case "cgroup":
		for _, o := range strings.Split(right[2], ",") {
			if slices.Contains(controllers, o) && h.V1[o] == "" {
				h.V1[o] = left[4]
			}
		}
	}
}

// Version returns the operator's name of the mode: "v1", "v2" or "hybrid".
func (h *Hierarchy) Version() string {
	switch {
	case len(h.V1) == 0:
		return "v2"
	case h.V2 == "":
		return "v1"
	}
	return "hybrid"
}

// Usable returns nil if this process can limit tasks by control groups, else an error with the
// reason.
func (h *Hierarchy) Usable() error {
	if h.lacks != nil {
		return h.lacks
	}
	needed := []string{"cpu", "memory"}
	if h.delegated != "" {
		needed = append(needed, "pids") // a delegation may lack it
	}
	for _, c := range needed {
		dir, version := h.controller(c, "")
		if version == 0 && h.delegated != "" {
			return fmt.Errorf("%w: the %s controller is not delegated to group %s", ErrUnavailable, c, h.delegated)
		}
		if version == 0 {
			return fmt.Errorf("%w: the host has no %s controller", ErrUnavailable, c)
		}
		if err := unix.Access(dir, unix.W_OK); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrUnavailable, dir, err)
		}
	}
	return nil
}

// dirs returns the directories of group rel in all trees, without duplicates.
func (h *Hierarchy) dirs(rel string) []string {
	var out []string
	if h.V2 != "" {
		out = append(out, filepath.Join(h.V2, rel))
	}
	for _, c := range controllers {
		m, ok := h.V1[c]
		if !ok {
			continue
		}
		if d := filepath.Join(m, rel); !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// needed returns the directories of a group with limits l. Each directory costs a creation, a join
// and a removal. If there is a version 2 tree, it provides processor time and kill; only reserved
// cores need a cpuset.
func (h *Hierarchy) needed(rel string, l Limits) []string {
	var spared, used []string
	for _, c := range controllers {
		m, ok := h.V1[c]
		if !ok {
			continue
		}
		if h.V2 != "" && (c == "cpuacct" || c == "freezer") || c == "cpuset" && len(l.Cores) == 0 {
			spared = append(spared, filepath.Join(m, rel))
		} else {
			used = append(used, filepath.Join(m, rel))
		}
	}
	return slices.DeleteFunc(h.dirs(rel), func(d string) bool { // controllers may share a mount
		return slices.Contains(spared, d) && !slices.Contains(used, d)
	})
}

// controllers2 lists the enabled controllers of a version 2 group, nil if they cannot be read.
func (h *Hierarchy) controllers2(rel string) []string {
	if h.V2 == "" {
		return nil
	}
	have, err := read(filepath.Join(h.V2, rel), "cgroup.controllers")
	if err != nil {
		return nil
	}
	return append([]string{}, strings.Fields(have)...)
}

// controller returns the directory of group rel for controller c, and the version of its tree.
// Version 0 means that the host lacks the controller.
func (h *Hierarchy) controller(c, rel string) (dir string, version int) {
	if m, ok := h.V1[c]; ok {
		return filepath.Join(m, rel), 1
	}
	if h.V2 == "" {
		return "", 0
	}
	if !slices.Contains(h.controllers2(rel), c) {
		return "", 0
	}
	return filepath.Join(h.V2, rel), 2
}

// prepare creates the parent in every tree and enables the controllers for its children. It returns
// the version 2 controllers that could not be enabled.
func (h *Hierarchy) prepare(parent string) (refused []string, err error) {
	if err := checkName(parent); err != nil {
		return nil, err
	}
	for _, d := range h.dirs(parent) {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("create group %s: %w", parent, err)
		}
	}
	if m, ok := h.V1["cpuset"]; ok {
		if err := inheritCPUSet(m, parent); err != nil {
			return nil, err
		}
		// Children inherit the settings from the kernel, which is much faster than writing files.
		if err := write(filepath.Join(m, parent), "cgroup.clone_children", "1"); err != nil {
			return nil, err
		}
	}
	if h.V2 == "" {
		return nil, nil
	}
	if h.delegated != "" {
		if err := h.vacate(); err != nil {
			return nil, err
		}
	}
	at := h.V2
	for _, part := range append([]string{""}, strings.Split(parent, "/")...) {
		at = filepath.Join(at, part)
		refused = append(refused, passOn(at)...)
	}
	return refused, nil
}

// passOn enables the controllers of a version 2 group for its children.
func passOn(dir string) (refused []string) {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil
	}
	given, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control")) // absent reads as none given
	for _, c := range strings.Fields(string(have)) {
		if !slices.Contains([]string{"cpu", "cpuset", "memory", "pids"}, c) || slices.Contains(strings.Fields(string(given)), c) {
			continue
		}
		if err := write(dir, "cgroup.subtree_control", "+"+c); err != nil {
			refused = append(refused, c)
		}
	}
	return refused
}

// inheritCPUSet copies the CPUs and memory nodes of the parent groups to a version 1 cpuset group.
// A new group has none and accepts no process.
func inheritCPUSet(mount, rel string) error {
	for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
		if _, err := cpuSet(mount, rel, f); err != nil {
			return err
		}
	}
	return nil
}

// cpuSet returns the content of file f of a group. An empty file first gets the content of the
// parent's file.
func cpuSet(mount, rel, f string) (string, error) {
	dir := filepath.Join(mount, rel)
	have, err := read(dir, f)
	if err != nil || have != "" || rel == "." {
		return have, err
	}
	above, err := cpuSet(mount, filepath.Dir(rel), f)
	if err != nil {
		return "", err
	}
	return above, write(dir, f, above)
}

// checkName refuses names that lead out of the tree.
func checkName(name string) error {
	if name == "" || !filepath.IsLocal(name) || filepath.Clean(name) != name || name == "." {
		return fmt.Errorf("group name %q is not a plain relative path", name)
	}
	return nil
}

// read and write bypass package os, which would register each file with the poller. The files are
// read or written once and closed.
func read(dir, file string) (string, error) {
	name := filepath.Join(dir, file)
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	var text []byte
	for buf := make([]byte, 4096); ; {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return "", &fs.PathError{Op: "read", Path: name, Err: err}
		case n == 0:
			return strings.TrimSpace(string(text)), nil
		default:
			text = append(text, buf[:n]...)
		}
	}
}

func write(dir, file, value string) error {
	name := filepath.Join(dir, file)
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	for {
		_, err = unix.Write(fd, []byte(value)) // written atomically
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return fmt.Errorf("write %q: %w", value, &fs.PathError{Op: "write", Path: name, Err: err})
		}
	}
}
