package netns

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// inNew creates a network namespace, sets its loopback interface up and calls use with a
// descriptor of it.
func inNew(use func(ns int) error) error {
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		return nil
	}, func() error { return within(use) })
}

// onThread calls leave and then use on one thread, and restores the network namespace of the thread. leave changes the
// namespace, or returns an error.
func onThread(leave, use func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		back, err := there(leave, use)
		if back {
			runtime.UnlockOSThread() // otherwise the thread exits with this goroutine
		}
		done <- err
	}()
	return <-done
}

// there reports whether the thread is back in its own namespace.
func there(leave, use func() error) (back bool, err error) {
	fd, err := current()
	if err != nil {
		return true, err
	}
	defer unix.Close(fd)
	if err := leave(); err != nil {
		return true, err
	}
	err = use()
	return unix.Setns(fd, unix.CLONE_NEWNET) == nil, err
}

func within(use func(ns int) error) error {
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("set loopback interface up: %w", err)
	}
	ns, err := current()
	if err != nil {
		return err
	}
	defer unix.Close(ns)
	return use(ns)
}

// current opens the network namespace of the calling thread.
func current() (int, error) {
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open network namespace: %w", err)
	}
	return fd, nil
}
