package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// dataDir is the data directory of an agent, locked against use by a second agent.
type dataDir struct {
	path string
	lock *os.File // nil for a temporary directory
	temp bool
}

// errInUse means that another agent has locked the directory.
var errInUse = errors.New("in use by another agent")

// lockPatience is how long an agent waits for another one that is about to end, or was killed while it started a program.
const lockPatience = 2 * time.Second

// openDataDir creates and locks the directory. It creates it with mode 0711: tasks must pass
// through it, but other users must not list it.
func openDataDir(path string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o711); err != nil {
		return nil, fmt.Errorf("data_dir: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, ".lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data_dir %s is not writable: %w", path, errors.Unwrap(err))
	}
	err = safefs.Lock(lock, lockPatience)
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

// tempDataDir creates the data directory of a -dev agent. It has mode 0711, as in openDataDir.
func tempDataDir() (*dataDir, error) {
	path, err := os.MkdirTemp("", "nomad-dev-")
	if err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	if err := os.Chmod(path, 0o711); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	return &dataDir{path: path, temp: true}, nil
}

// barrier returns the first directory at or above path that other users cannot pass through, or
// "" if there is none.
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

// close unlocks the directory, or removes it if it is temporary.
func (d *dataDir) close() error {
	if d.temp {
		if err := os.RemoveAll(d.path); err != nil {
			return fmt.Errorf("remove the data of the dev agent, %s: %w", d.path, err)
		}
		return nil
	}
	return d.lock.Close()
}
