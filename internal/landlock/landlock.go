// Package landlock takes file, network, signal and socket rights away, for good, from the calling
// thread of a program that executes another in its place. It uses Landlock (landlock(7)). All
// rights that the kernel's ABI can take away are taken (rights.go); TCP ports only where they are
// listed.
//
// Two layers are laid on each other; what either denies is denied:
//
//	go-landlock   every file right up to truncate (ABI 3), given back by path
//	this package  what that library does not handle: TCP ports (ABI 4), device
//	              ioctl (5), abstract unix sockets and signals to the outside (6),
//	              unix sockets in the file system (9)
//
// go-landlock restricts every thread of the process (package psx), this package the calling one.
// The program gets both layers, because the execve ends the other threads.
//
// The kernel tells of a refusal what the youngest layer that refuses asked it to tell.
// The library asks for nothing: so where refusals are to be told, the second layer
// handles files too, with the same rules.
//
// Given back is what a path's modes say. No mode gives ioctl on devices. A socket
// made outside can be connected to where the modes allow to read and write below a
// directory, or to write the socket itself.
//
// Rules are a union along a path: a narrower grant below a wider one denies
// nothing. Landlock says nothing about stat, chmod, chown, UDP, path unix sockets
// (before ABI 9), user namespaces or descriptors opened before. It needs no
// privilege. It fails closed: what was asked for and can't be enforced is an error.
// No goroutines, no state.
package landlock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	lib "github.com/shoenig/go-landlock"
	"golang.org/x/sys/unix"
)

// ErrUnavailable means that the kernel has no Landlock, or that it is not enabled.
var ErrUnavailable = errors.New("landlock is not available in this kernel")

// ABI returns the version of Landlock that the kernel offers.
func ABI() (int, error) {
	v, err := lib.Detect()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return v, nil
}

// Path gives back rights below one file or directory.
type Path struct {
	Modes string // any of r, w, x, c (create and remove)
	FD    int    // opened with O_PATH: the rule is for this very inode
	Name  string // for errors
}

// Ports are the TCP ports that stay usable.
type Ports struct {
	Bind, Connect []uint16
}

// Ruleset is what a process keeps.
type Ruleset struct {
	Paths  []Path
	TCP    *Ports // nil leaves TCP alone
	MinABI int    // a kernel below it is an error
	Log    bool   // the kernel's audit tells what is refused, also to programs executed later
}

// ValidModes says whether s is one or more of r, w, x, c.
func ValidModes(s string) bool {
	return s != "" && strings.Trim(s, "rwxc") == ""
}

// Restrict puts the calling thread, and the program that it executes, under r. The caller is locked
// to its thread and does nothing after Restrict but to execute the program: other threads keep
// rights that only the second layer takes away. It sets no_new_privs. On error the process may be
// restricted in part and must not run a task.
func (r Ruleset) Restrict() error {
	abi, err := ABI()
	if err != nil {
		return err
	}
	if abi < r.MinABI {
		return &TooOld{Have: abi, Want: r.MinABI}
	}
	if r.TCP != nil && abi < ABITCP {
		return fmt.Errorf("restrict TCP ports: %w", &TooOld{Have: abi, Want: ABITCP})
	}
	if r.Log && abi < ABIAudit {
		return fmt.Errorf("have refusals told: %w", &TooOld{Have: abi, Want: ABIAudit})
	}
	files, err := merge(r.Paths)
	if err != nil {
		return err
	}
	if err := restrictFiles(files); err != nil {
		return err
	}
	return r.restrictRest(abi, files)
}

// restrictFiles applies the first layer.
func restrictFiles(files []file) error {
	paths, err := libPaths(files)
	if err != nil {
		return err
	}
	if err := lib.New(paths...).Lock(lib.Mandatory); err != nil {
		return fmt.Errorf("restrict files: %w", err)
	}
	return nil
}

// libPaths turns the opened files into paths that lead to exactly them.
func libPaths(files []file) ([]*lib.Path, error) {
	out := make([]*lib.Path, 0, len(files))
	for _, f := range files {
		if !ValidModes(f.Modes) {
			return nil, fmt.Errorf("modes %q of %s: want any of r, w, x, c", f.Modes, f.Name)
		}
		at := "/proc/self/fd/" + strconv.Itoa(f.FD)
		switch {
		case f.kind() == unix.S_IFDIR:
			out = append(out, lib.Dir(at, f.Modes))
		case strings.Trim(f.Modes, "c") == "":
			return nil, fmt.Errorf("mode c of %s gives nothing: it is not a directory", f.Name)
		default:
			out = append(out, lib.File(at, f.Modes))
		}
	}
	return out, nil
}
