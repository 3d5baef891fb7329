package mounts

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// sharing is held by Share and Unshare: two calls at a time would mount the directory twice.
var sharing sync.Mutex

// Share mounts the directory <state dir>/csi on itself, and shares the mounts below it with plugins: what a plugin mounts in
// its own namespace appears on the host, if its directory is mounted there with bidirectional propagation. The programs of
// other tasks unmount this one mount in their namespaces, so that they keep no volume busy. It does nothing if
// the directory is shared already: plugins that run must not lose the connection. It creates the directory.
func Share(dir string) error {
	sharing.Lock()
	defer sharing.Unlock()
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	above, err := safefs.Open(path.Dir(dir))
	if err != nil {
		return err
	}
	defer above.Close() //nolint:errcheck // a directory
	name := path.Base(dir)
	if !above.Mounted(name) {
		if err := bindSelf(above, name); err != nil {
			return fmt.Errorf("share the mounts below %s: %w", dir, err)
		}
	}
	own, err := above.Sub(name)
	if err != nil {
		return err
	}
	defer own.Close() //nolint:errcheck // a directory
	attr := unix.MountAttr{Propagation: unix.MS_SHARED}
	if err := unix.MountSetattr(own.FD(), "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("share the mounts below %s: %w", dir, safefs.SyscallError("mount_setattr", "5.12", err))
	}
	return nil
}

// bindSelf mounts a directory on itself. The mount shares nothing with that of the directory: each mount below would also appear
// there, where nobody unmounts it.
func bindSelf(above *safefs.Dir, name string) error {
	own, err := above.Sub(name)
	if err != nil {
		return err
	}
	defer own.Close() //nolint:errcheck // a directory
	tree, err := safefs.CopyMount(own.FD())
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := tree.Restrict(safefs.TreeAttrs{Trusted: true, Propagation: unix.MS_PRIVATE}); err != nil {
		return err
	}
	return tree.Attach(own.FD())
}

// Unshare undoes Share if nothing is mounted below the directory. It reports whether the directory is not shared any more.
func Unshare(dir string) (bool, error) {
	sharing.Lock()
	defer sharing.Unlock()
	above, err := safefs.Open(path.Dir(dir))
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer above.Close() //nolint:errcheck // a directory
	err = above.UnmountTop(path.Base(dir))
	if errors.Is(err, unix.EBUSY) {
		return false, nil
	}
	return err == nil, err
}
