// Package cgroup gives a task a control group: limits, a list of its processes,
// one kill for all of them, and what they use.
//
// It speaks version 2 (one tree), version 1 (a tree per controller) and the
// hybrid of both: limits live where the controller lives; tracking and killing
// use the version 2 tree whenever there is one, since it alone can kill at once.
//
//	v2      <mount>/nomad.slice/<name>                all
//	v1      <mount>/{cpu,cpuacct,memory,pids,cpuset,freezer}/nomad.slice/<name>
//	hybrid  both: controllers in v1, processes, kill and processor time in v2
//
// A group has a cpuset only for cores of its own, and in the hybrid neither freezer nor
// cpuacct.
//
// Without root it speaks version 2 only, below a group delegated to the user.
//
// Only this package writes below the parent it is given. It fails closed: a limit
// whose controller is absent is an error. No goroutines, no state but the tree.
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

// ErrUnavailable means that groups can't be used here; the error says why.
var ErrUnavailable = errors.New("control groups are not available")

// controllers that this package uses, by the names of version 1.
var controllers = []string{"cpu", "cpuacct", "memory", "pids", "cpuset", "freezer"}

// Hierarchy is where the host has its control groups mounted.
type Hierarchy struct {
	V2 string            // mount of the version 2 tree, "" if none
	V1 map[string]string // controller → mount, those that this package uses

	delegated string // V2 is this group of the host's tree, an ordinary user's to divide
	lacks     error  // why an ordinary user has none
}

// Detect returns the hierarchy of this host; it is read once.
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

// addMount reads one line of mountinfo:
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

// Version is what an operator calls the mode: "v1", "v2" or "hybrid".
func (h *Hierarchy) Version() string {
	switch {
	case len(h.V1) == 0:
		return "v2"
	case h.V2 == "":
		return "v1"
	}
	return "hybrid"
}

// Usable says in an error why this process can't limit tasks by groups here, nil
// when it can.
func (h *Hierarchy) Usable() error {
	if h.lacks != nil {
		return h.lacks
	}
	needed := []string{"cpu", "memory"}
	if h.delegated != "" {
		needed = append(needed, "pids") // may be left out of a delegation
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

// dirs returns the directory of group rel in every tree, each once.
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

// needed returns the directories that a group with limits takes. Each costs the making,
// a joining and the removal: where there is version 2, it tells processor time and kills,
// and only cores of its own need a cpuset.
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

// controllers2 lists the controllers that work in a group of version 2, nil if they
// can't be read or there is none.
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

// controller returns the directory of group rel where controller c works and
// which version that is; version 0 if the host has no such controller.
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

// prepare makes the parent in every tree and passes the controllers on to its
// children. It returns the controllers that could not be passed on in version 2.
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
		// Groups made below get theirs from the kernel, much faster than by file.
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

// passOn gives the children of a version 2 group the controllers it has itself.
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

// inheritCPUSet gives a version 1 cpuset group the cpus and memory nodes of the
// groups above: it is born with none and would take no process.
func inheritCPUSet(mount, rel string) error {
	for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
		if _, err := cpuSet(mount, rel, f); err != nil {
			return err
		}
	}
	return nil
}

// cpuSet returns file f of a group; an empty one gets what the group above has.
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

// read and write go around package os, which would register each file with the
// poller: these are read or written once and closed.
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
		_, err = unix.Write(fd, []byte(value)) // as a whole or not at all
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return fmt.Errorf("write %q: %w", value, &fs.PathError{Op: "write", Path: name, Err: err})
		}
	}
}
