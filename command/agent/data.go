package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// dataDir is the directory of an agent, held so that no second agent uses it.
type dataDir struct {
	path string
	lock *os.File // nil for a temporary one
	temp bool
}

// errInUse says that another agent holds the directory.
var errInUse = errors.New("in use by another agent")

// openDataDir makes sure that the directory can be written and is nobody else's. One
// that is made here lets others pass, as tasks must, but not look.
func openDataDir(path string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o711); err != nil {
		return nil, fmt.Errorf("data_dir: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, ".lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data_dir %s is not writable: %w", path, errors.Unwrap(err))
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		lock.Close() // nothing was written
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, fmt.Errorf("data_dir %s is %w", path, errInUse)
	case err != nil:
		return nil, fmt.Errorf("lock data_dir %s: %w", path, err)
	}
	return &dataDir{path: path, lock: lock}, nil
}

// tempDataDir makes the directory of an agent that keeps nothing. Tasks reach
// theirs through it, so others may pass but not look.
func tempDataDir() (*dataDir, error) {
	path, err := os.MkdirTemp("", "nomad-dev-")
	if err != nil {
		return nil, fmt.Errorf("make a data directory: %w", err)
	}
	if err := os.Chmod(path, 0o711); err != nil {
		return nil, fmt.Errorf("make a data directory: %w", err)
	}
	return &dataDir{path: path, temp: true}, nil
}

// barrier returns a directory on the way to path, or path itself, that other users
// may not pass, "" when there is none.
func barrier(path string) string {
	for dir := path; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// close lets go of the directory; a temporary one is removed.
func (d *dataDir) close() error {
	if d.temp {
		if err := os.RemoveAll(d.path); err != nil {
			return fmt.Errorf("remove the data of the dev agent, %s: %w", d.path, err)
		}
		return nil
	}
	return d.lock.Close()
}
