package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"

	"golang.org/x/sys/unix"
)

// ErrNoNamespace means that there is no network namespace at a path.
var ErrNoNamespace = errors.New("not a network namespace")

// Addresses returns the addresses of an interface in the namespace at path.
func Addresses(path, name string) ([]netip.Addr, error) {
	var out []netip.Addr
	err := inspect(path, func() error {
		ifc, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
		addrs, err := ifc.Addrs()
		if err != nil {
			return fmt.Errorf("addresses of %s: %w", name, err)
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				out = append(out, p.Addr())
			}
		}
		return nil
	})
	return out, err
}

// inspect calls look on a thread in the namespace at path. The thread ends with the call.
func inspect(path string, look func() error) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, errors.Join(ErrNoNamespace, err))
	}
	defer unix.Close(fd)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter %s: %w", path, errors.Join(ErrNoNamespace, err))
			return
		}
		done <- look()
	}()
	return <-done
}
