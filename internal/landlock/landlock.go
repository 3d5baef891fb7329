// Package landlock permanently removes file, network, signal and socket rights from the calling
// thread, which then executes another program. It uses Landlock (landlock(7)). It removes every right
// that the kernel's ABI can remove (rights.go), but restricts TCP ports only on request.
//
// It applies two layers, and a right that either layer denies is denied:
//
//	go-landlock   every file right up to truncate (ABI 3), granted by path
//	this package  the rights that the library does not handle: TCP ports (ABI 4), device
//	              ioctl (5), abstract unix sockets and signals to other processes (6),
//	              unix sockets in the file system (9)
//
// go-landlock restricts every thread of the process (package psx), this package the calling one. The
// program gets both layers, because the execve ends the other threads.
//
// The kernel logs a denial as the youngest denying layer requested. The library requests no logging.
// If denials are to be logged, the second layer therefore handles files too, with the same rules.
//
// A path's modes define what is granted. No mode grants ioctl on devices: Path.Device does. Ioctl and Signal leave it
// and signals alone. A socket created outside
// can be connected to if the modes allow reading and writing below its directory, or writing the
// socket itself.
//
// Rules are a union along a path: a narrower grant below a wider one denies nothing. Landlock does
// not restrict stat, chmod, chown, UDP, path unix sockets (before ABI 9), user namespaces or open
// descriptors. It needs no privilege. The package fails closed: a requested restriction that the
// kernel cannot enforce is an error. It has no goroutines and no state.
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

// Path grants rights below one file or directory.
type Path struct {
	Modes string // any of r, w, x, c (create and remove)
	FD    int    // opened with O_PATH: the rule is for this inode
	Name  string // for errors
	// Device means that the file is a device node on which ioctl is allowed.
	Device bool
}

// Ports are the TCP ports that stay usable.
type Ports struct {
	Bind, Connect []uint16
}

// Ruleset lists the rights that a process keeps.
type Ruleset struct {
	Paths  []Path
	TCP    *Ports // nil does not restrict TCP
	Ioctl  bool   // ioctl on devices is not restricted
	Signal bool   // signals to other processes are not restricted
	MinABI int    // an older kernel is an error
	Log    bool   // audit denials, also in programs executed later
}

// ValidModes reports whether s is one or more of r, w, x, c.
func ValidModes(s string) bool {
	return s != "" && strings.Trim(s, "rwxc") == ""
}

// Restrict restricts the calling thread and the program that it executes to r. The caller must have
// locked the goroutine to its thread, and must do nothing after Restrict but execute the program:
// other threads keep the rights that only the second layer removes. Restrict sets no_new_privs. On
// error the process may be partly restricted and must not run a task.
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
		return fmt.Errorf("log denials: %w", &TooOld{Have: abi, Want: ABIAudit})
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

// libPaths converts the opened files to paths that lead to exactly these files.
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
			return nil, fmt.Errorf("mode c of %s has no effect: not a directory", f.Name)
		default:
			out = append(out, lib.File(at, f.Modes))
		}
	}
	return out, nil
}
