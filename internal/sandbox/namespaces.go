package sandbox

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// isolate moves the calling thread, and so the program, to the namespaces of p. The process that
// forks the stage creates the PID namespace, since a process cannot change its own.
func (p *Policy) isolate(lookup *lookup) error {
	// Init is process 1 there, and the stage is its child (internal/tinyinit).
	if p.PrivatePID && (unix.Getpid() != 2 || unix.Getppid() != 1) {
		return errors.New("the stage was not started in a PID namespace of its own")
	}
	if p.NetNS != "" {
		if err := joinNetwork(p.NetNS); err != nil {
			return fmt.Errorf("join network namespace %s: %w", p.NetNS, err)
		}
	}
	flags := 0
	if p.PrivateIPC {
		flags |= unix.CLONE_NEWIPC
	}
	if p.Hostname != "" {
		flags |= unix.CLONE_NEWUTS
	}
	if p.Mounts != nil {
		flags |= unix.CLONE_NEWNS // for this thread only, which executes the program
	}
	if flags == 0 {
		return p.resolve(lookup)
	}
	if err := unix.Unshare(flags); err != nil {
		return fmt.Errorf("create mount (%t), IPC (%t) and UTS (%t) namespaces: unshare: %w", p.Mounts != nil, p.PrivateIPC,
			p.Hostname != "", err)
	}
	if p.Hostname != "" {
		if err := unix.Sethostname([]byte(p.Hostname)); err != nil {
			return fmt.Errorf("set the host name %q: %w", p.Hostname, err)
		}
	}
	if err := p.resolve(lookup); err != nil || p.Mounts == nil {
		return err
	}
	return p.mount(lookup)
}

// resolve registers the existing foreign mounts.
func (p *Policy) resolve(lookup *lookup) error {
	for _, point := range p.Foreign {
		if err := lookup.add(point); err != nil {
			return err
		}
	}
	return nil
}

// joinNetwork joins the network namespace at path. Any other file is an error.
func joinNetwork(path string) error {
	fd, err := openNamespace(path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil { // refuses other types
		return fmt.Errorf("setns: %w", err)
	}
	return nil
}

// openNamespace opens the file of a namespace.
func openNamespace(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return -1, fmt.Errorf("open: %w", err)
	}
	var fs unix.Statfs_t
	err = unix.Fstatfs(fd, &fs)
	if err == nil && fs.Type != unix.NSFS_MAGIC {
		err = errors.New("not a namespace: the file is not on nsfs")
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
