package netns

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// inNew creates a network namespace, sets its loopback interface up and calls use with a
// descriptor of it.
func inNew(use func(ns int) error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		back, err := onThread(use)
		if back {
			runtime.UnlockOSThread() // otherwise the thread exits with this goroutine
		}
		done <- err
	}()
	return <-done
}

// onThread reports whether the thread is back in its own namespace.
func onThread(use func(ns int) error) (back bool, err error) {
	own, err := current()
	if err != nil {
		return true, err
	}
	defer unix.Close(own)
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return true, fmt.Errorf("unshare: %w", err)
	}
	err = within(use)
	if failed := unix.Setns(own, unix.CLONE_NEWNET); failed != nil {
		return false, err
	}
	return true, err
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
