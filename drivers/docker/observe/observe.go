// Package observe compares the first process of a container with what was asked of the daemon.
//
// A daemon has its own parsers and defaults. So what a container has is read from the kernel (/proc), not from the
// daemon. A difference is a fact that isolates less than asked; one that isolates more is none.
//
//	Open ─▶ Differences ─▶ Close
//
// The package starts no goroutine. It reads /proc only, by a directory that stays open, so that a reused PID cannot
// replace the process.
package observe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Expected is what a container must have.
type Expected struct {
	// User is "<uid>:<gid>", "" if it is not checked. Groups are those that the process may have in addition.
	User   string
	Groups []string
	// Capabilities is the set that it may have at most.
	Capabilities uint64
	NoPrivileges bool
	// Namespaces are those that must not be the agent's, as in /proc/<pid>/ns.
	Namespaces []string
	// Mounts are the mount points that it may have, apart from those of every container. Nil: they are not checked.
	// ReadOnly are those that must be read-only.
	Mounts, ReadOnly []string
	// Masked are files and directories of the kernel that it must not see, if they exist. They are checked with Mounts.
	Masked []string
	// OwnTrees means that /proc, /sys and /dev must be those of its runtime.
	OwnTrees bool
}

// maxRead limits the size of files that a process can make long (mountinfo).
const maxRead = 4 << 20

// Process is the first process of a container.
type Process struct {
	dir    *os.Root
	path   string
	status map[string]string
}

// ErrGone means that the process has ended.
var ErrGone = errors.New("the process has ended")

// Open returns the process with an ID.
func Open(pid int) (*Process, error) {
	path := "/proc/" + strconv.Itoa(pid)
	dir, err := os.OpenRoot(path)
	if err != nil {
		return nil, gone(err)
	}
	p := &Process{dir: dir, path: path, status: map[string]string{}}
	text, err := p.read("status")
	if err != nil {
		dir.Close() //nolint:errcheck // read only
		return nil, err
	}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			p.status[key] = strings.TrimSpace(value)
		}
	}
	if strings.HasPrefix(p.status["State"], "Z") || strings.HasPrefix(p.status["State"], "X") {
		dir.Close() //nolint:errcheck // read only
		return nil, ErrGone
	}
	return p, nil
}

// gone returns ErrGone for the errors of files of a process that has ended.
func gone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	return fmt.Errorf("inspect the process: %w", err)
}

// Close closes the process.
func (p *Process) Close() error { return p.dir.Close() }

func (p *Process) read(name string) (string, error) {
	f, err := p.dir.Open(name)
	if err != nil {
		return "", gone(err)
	}
	defer f.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	if err != nil {
		return "", gone(err)
	}
	if len(text) > maxRead {
		return "", fmt.Errorf("inspect the process: %s has more than %d bytes", name, maxRead)
	}
	return string(text), nil
}

// Filtered reports whether a filter of system calls applies.
func (p *Process) Filtered() bool { return p.status["Seccomp"] == "2" }

// UserNamespace returns the user namespace of the process, "" if it cannot be read.
func (p *Process) UserNamespace() string {
	name, err := p.dir.Readlink("ns/user")
	if err != nil {
		return ""
	}
	return name
}

// Differences returns what the container does not have as expected.
func (p *Process) Differences(e *Expected) ([]string, error) {
	out := p.privileges(e)
	for _, check := range []func(*Expected) ([]string, error){p.users, p.namespaces, p.mounts} {
		more, err := check(e)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// privileges compares capabilities and no_new_privs.
func (p *Process) privileges(e *Expected) (out []string) {
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		have, err := strconv.ParseUint(p.status[set], 16, 64)
		if err != nil || have&^e.Capabilities != 0 {
			out = append(out, fmt.Sprintf("%s is %s, at most %016x was asked for", set, p.status[set], e.Capabilities))
		}
	}
	if e.NoPrivileges && p.status["NoNewPrivs"] != "1" {
		out = append(out, fmt.Sprintf("NoNewPrivs is %q, 1 was asked for", p.status["NoNewPrivs"]))
	}
	return out
}

// users compares the user and the groups, as the container sees them.
func (p *Process) users(e *Expected) (out []string, err error) {
	if e.User == "" {
		return nil, nil
	}
	uid, gid, _ := strings.Cut(e.User, ":")
	for _, c := range []struct{ key, file, want string }{{"Uid", "uid_map", uid}, {"Gid", "gid_map", gid}} {
		table, err := p.idMap(c.file)
		if err != nil {
			return nil, err
		}
		for _, id := range strings.Fields(p.status[c.key]) {
			if got := table.inside(id); got != c.want {
				out = append(out, fmt.Sprintf("%s is %s, %s was asked for", c.key, got, c.want))
				break
			}
		}
		if c.key != "Gid" {
			continue
		}
		for _, id := range strings.Fields(p.status["Groups"]) {
			if got := table.inside(id); got != gid && !slices.Contains(e.Groups, got) {
				out = append(out, fmt.Sprintf("it has the additional group %s", got))
			}
		}
	}
	return out, nil
}

// idMap is the map of a user namespace.
type idMap [][3]uint64

func (p *Process) idMap(name string) (out idMap, err error) {
	text, err := p.read(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		var m [3]uint64
		if _, err := fmt.Sscan(line, &m[0], &m[1], &m[2]); err != nil {
			return nil, fmt.Errorf("inspect the process: %s: %w", name, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// inside returns the ID in the namespace of an ID of the agent's.
func (t idMap) inside(id string) string {
	n, err := strconv.ParseUint(id, 10, 32)
	for _, m := range t {
		if err == nil && n >= m[1] && n-m[1] < m[2] {
			return strconv.FormatUint(n-m[1]+m[0], 10)
		}
	}
	return id + " (not mapped)"
}

// namespaces compares namespaces with those of the agent.
func (p *Process) namespaces(e *Expected) (out []string, err error) {
	for _, kind := range e.Namespaces {
		live, err := p.dir.Readlink("ns/" + kind)
		if err != nil {
			return nil, gone(err)
		}
		host, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return nil, fmt.Errorf("inspect the agent: %w", err)
		}
		if live == host {
			out = append(out, fmt.Sprintf("its %s namespace is that of the agent", kind))
		}
	}
	return out, nil
}
