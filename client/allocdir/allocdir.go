// Package allocdir builds and removes the directory of an allocation.
//
//	<root>/<alloc id>/             0710, with an access control list of the tasks' users
//	  alloc/                       1777 shared by the tasks
//	    data/                      0777
//	    logs/                      1777 written by the supervisor
//	    tmp/                       1777
//	  <task>/                      1777 working directory of the task
//	    local/                     0777 of the task's user; 0700 when private
//	    secrets/                   0700 of the task's user; tmpfs when root
//	    private/                   0700 of the agent; tmpfs when root, and used; not for the task
//	    tmp/                       1777; 0700 of the task's user when private
//
// Directories that contain other directories of this package are sticky and owned by root, so
// that a task cannot replace these. Other users of the node cannot enter the allocation's directory: so
// directories in it can be writable for users that only an image knows. Everything is accessed through descriptors that are open
// since creation (internal/safefs); no path string is used twice. A tmpfs is marked by a file
// .nomad-mount.
//
// The package starts no goroutine and has no state except the descriptors.
package allocdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// Names below an allocation's and a task's directory.
const (
	SharedName  = "alloc"
	DataName    = "data"
	LogsName    = "logs"
	TmpName     = "tmp"
	LocalName   = "local"
	SecretsName = "secrets"
	PrivateName = "private"

	mountMarker = ".nomad-mount"
)

const (
	openMode = 0o777
	// ownMode is that of an allocation's directory: only the agent and the users of tasks can enter. As a
	// mode of the group, the bit for execution is the mask of the access control list.
	ownMode    = 0o710
	passMode   = 0o711
	stickyMode = 0o777 | fs.ModeSticky
)

// Dir is the directory of one allocation. Per task, its methods must be called by one goroutine
// at a time.
type Dir struct {
	root *safefs.Dir // <root>: the alloc_dir of the client
	dir  *safefs.Dir // <root>/<id>
	id   string
	path string
	mu   sync.Mutex // for changes of the access control list
}

// Build opens the directory of an allocation below root and creates what is missing. It is
// idempotent, for restarts of the agent.
func Build(root, id string) (*Dir, error) {
	if err := os.MkdirAll(root, 0o711); err != nil {
		return nil, fmt.Errorf("build allocation directory: %w", err)
	}
	at, err := safefs.Open(root)
	if err != nil {
		return nil, fmt.Errorf("build allocation directory: %w", err)
	}
	d := &Dir{root: at, id: id, path: filepath.Join(root, id)}
	if err := d.build(); err != nil {
		d.Close()
		return nil, fmt.Errorf("build allocation directory: %w", err)
	}
	return d, nil
}

func (d *Dir) build() (err error) {
	if d.dir, err = d.root.Make(d.id, ownMode); err != nil {
		return err
	}
	shared, err := d.dir.Make(SharedName, stickyMode)
	if err != nil {
		return err
	}
	defer shared.Close()
	for name, mode := range map[string]fs.FileMode{
		DataName: openMode, LogsName: stickyMode, TmpName: stickyMode,
	} {
		sub, err := shared.Make(name, mode)
		if err != nil {
			return err
		}
		sub.Close() // created, not kept open
	}
	return nil
}

// admit lets a user pass through the directory of the allocation, to the paths that it has below. On a
// file system without access control lists, every user can then pass.
func (d *Dir) admit(uid int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.dir.Admit(uint32(uid))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return d.dir.Chmod(passMode)
	}
	return err
}

// Path returns <root>/<alloc id>.
func (d *Dir) Path() string { return d.path }

// SharedPath returns the directory that all tasks of the allocation share.
func (d *Dir) SharedPath() string { return filepath.Join(d.path, SharedName) }

// LogPath returns the log directory of all tasks.
func (d *Dir) LogPath() string { return filepath.Join(d.path, SharedName, LogsName) }

// Shared opens the directory that all tasks share. The caller closes it.
func (d *Dir) Shared() (*safefs.Dir, error) { return d.dir.Sub(SharedName) }

// Close closes the descriptors. The files stay.
func (d *Dir) Close() {
	// Directories opened for reading: closing them loses nothing.
	if d.dir != nil {
		d.dir.Close()
	}
	d.root.Close()
}

// Destroy unmounts the file systems, removes the directory and closes it. A missing directory
// is not an error.
func (d *Dir) Destroy() error {
	defer d.Close()
	err := errors.Join(d.unmountTasks(), d.root.RemoveAll(d.id))
	if err != nil {
		return fmt.Errorf("destroy directory of allocation %s: %w", d.id, err)
	}
	return nil
}

// Destroy removes the directory of an allocation that no longer runs.
func Destroy(root, id string) error {
	at, err := safefs.Open(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("destroy directory of allocation %s: %w", id, err)
	}
	dir, err := at.Sub(id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		at.Close() // nothing was modified
		return fmt.Errorf("destroy directory of allocation %s: %w", id, err)
	}
	d := &Dir{root: at, dir: dir, id: id}
	if dir == nil {
		d.Close()
		return nil
	}
	return d.Destroy()
}

// unmountTasks unmounts the tmpfs file systems of every task directory.
func (d *Dir) unmountTasks() error {
	list, err := d.dir.Sub(".")
	if err != nil {
		return err
	}
	defer list.Close()
	names, err := list.Names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		task, err := d.dir.Sub(name)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, safefs.ErrEscape) || errors.Is(err, fs.ErrNotExist) {
			continue // not a directory: removed with the rest
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, task.Unmount(SecretsName), task.Unmount(PrivateName))
		task.Close() // nothing was modified
	}
	return errors.Join(errs...)
}
