package netns

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Inside calls use on a thread in the network namespace at path, and then restores the thread's own. A socket that
// use creates stays in the namespace. use must not start goroutines that create sockets.
func Inside(path string, use func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		back, err := enter(path, use)
		if back {
			runtime.UnlockOSThread() // otherwise the thread exits with this goroutine
		}
		done <- err
	}()
	return <-done
}

// enter reports whether the thread is back in its own namespace.
func enter(path string, use func() error) (back bool, err error) {
	own, err := current()
	if err != nil {
		return true, err
	}
	defer unix.Close(own)
	ns, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return true, fmt.Errorf("open %s: %w", path, errors.Join(ErrNoNamespace, err))
	}
	defer unix.Close(ns)
	if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
		return true, fmt.Errorf("enter %s: %w", path, errors.Join(ErrNoNamespace, err))
	}
	err = use()
	return unix.Setns(own, unix.CLONE_NEWNET) == nil, err
}
