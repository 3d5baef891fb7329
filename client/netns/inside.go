package netns

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Inside calls use on a thread in the network namespace at path, and then restores the thread's own. A socket that
// use creates stays in the namespace. use must not start goroutines that create sockets.
func Inside(path string, use func() error) error {
	ns, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, errors.Join(ErrNoNamespace, err))
	}
	defer unix.Close(ns)
	return onThread(func() error {
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter %s: %w", path, errors.Join(ErrNoNamespace, err))
		}
		return nil
	}, use)
}
