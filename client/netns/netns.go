// Package netns manages the network namespaces of a node's allocations: one per allocation whose
// group has its own network (mode none, bridge or cni/<name>). A new namespace has only a loopback
// interface, which is up. Package client/network connects it. A Set makes and removes the
// namespaces of a node; Inside runs a function in one.
//
//	<dir>/           0700, of the client's state directory
//	  <alloc id>     a file with the namespace mounted on it
//
//	(none) ──Make──▶ mounted ──Remove, Sweep──▶ (none)
//	                    └──boot──▶ plain file ──Make──▶ mounted
//
// The mount keeps a namespace alive without a process in it, so that it outlives restarts of
// tasks and of the agent. Files are accessed through a descriptor of the directory, which tasks
// cannot reach. Make creates a namespace on a thread of its own, which returns to the node's
// namespace or exits before Make returns.
//
// The package starts no goroutine that outlives a call, and keeps no state in memory.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// ErrUnprivileged is wrapped if the agent is not allowed to create network namespaces.
var ErrUnprivileged = errors.New("a network of mode none needs an agent that runs as root")

// Set manages the network namespaces of one client. Its methods may be called concurrently for
// different allocations.
type Set struct{ dir string }

// New returns a Set with its files in a directory that only the client uses.
func New(dir string) *Set { return &Set{dir} }

// Possible reports whether this process may create network namespaces.
func Possible() bool { return os.Geteuid() == 0 }

// Make returns the path of the allocation's network namespace. It creates the namespace if it
// does not exist.
func (s *Set) Make(alloc string) (string, error) {
	if !Possible() {
		return "", ErrUnprivileged
	}
	if err := s.make(alloc); err != nil {
		return "", fmt.Errorf("create network namespace of allocation %s: %w", alloc, err)
	}
	return filepath.Join(s.dir, alloc), nil
}

func (s *Set) make(alloc string) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	d, err := safefs.Open(s.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if d.Mounted(alloc) {
		return nil
	}
	file, err := d.Append(alloc, 0o400)
	if err != nil {
		return err
	}
	file.Close() // an empty file, as the mount point
	err = inNew(func(ns int) error { return d.Bind(ns, alloc) })
	if err != nil {
		err = errors.Join(err, d.Remove(alloc))
	}
	return err
}

// Remove unmounts the allocation's namespace, which ends when it has no processes. A missing
// namespace is not an error.
func (s *Set) Remove(alloc string) error {
	d, err := safefs.Open(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer d.Close()
		err = remove(d, alloc)
	}
	if err != nil {
		return fmt.Errorf("remove network namespace of allocation %s: %w", alloc, err)
	}
	return nil
}

func remove(d *safefs.Dir, alloc string) error {
	if err := d.Unmount(alloc); err != nil {
		return err
	}
	return d.Remove(alloc)
}

// Allocations returns the allocations that have a namespace, such as those of an agent that died.
func (s *Set) Allocations() ([]string, error) {
	d, err := safefs.Open(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	defer d.Close()
	names, err := d.Names()
	if err != nil {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	return names, nil
}

// Sweep removes the namespaces of all allocations that keep does not select.
func (s *Set) Sweep(keep func(alloc string) bool) error {
	names, err := s.Allocations()
	errs := []error{err}
	for _, name := range names {
		if !keep(name) {
			errs = append(errs, s.Remove(name))
		}
	}
	return errors.Join(errs...)
}

// loopbackUp sets the interface lo of the calling thread's namespace up. The kernel assigns its
// addresses.
func loopbackUp() error {
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(sock, unix.SIOCGIFFLAGS, req); err != nil {
		return err
	}
	req.SetUint16(req.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(sock, unix.SIOCSIFFLAGS, req)
}
