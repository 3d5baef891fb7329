// Package owner gives the files of a CSI volume to the user of a task (volume_mount { owner = "task" }). A volume that was just
// created belongs to root, and the user of the last task may have another number.
//
// The volume may contain what an earlier task has prepared. So the package works with directory descriptors: it follows no
// link, enters no other file system, and limits depth, number of files and time. The root of the volume is changed last. A
// volume whose root has the owner already is not read, so that an interrupted change is repeated and a finished one is not.
//
// The package has no state and starts no goroutine.
package owner

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// The limits of a change.
const (
	maxDepth = 200 // a descriptor each
	maxFiles = 20_000_000
	maxTime  = 30 * time.Minute
)

// IDs are the numbers of a user and a group.
type IDs struct{ UID, GID int }

// Give gives a volume, which is mounted at a path that only root can change, or the node of a block device there, to a user.
func Give(ctx context.Context, volume string, to IDs) error {
	if to.UID < 0 || to.GID < 0 {
		return errors.New("the task's user has no number on this node: set user = \"<uid>:<gid>\" in the task")
	}
	fd, err := safefs.OpenNoLinks(volume, unix.O_PATH)
	if err != nil {
		return fmt.Errorf("open the volume: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // opened with O_PATH
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("examine the volume: %w", err)
	}
	if int(st.Uid) == to.UID && int(st.Gid) == to.GID {
		return nil
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		ctx, cancel := context.WithTimeoutCause(ctx, maxTime, fmt.Errorf("it has taken longer than %s: change the owner of the volume's root by hand", maxTime))
		defer cancel()
		if err := giveTree(ctx, volume, to); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // the task does not start, and the caller may have left
	}
	if err := unix.Fchownat(fd, "", to.UID, to.GID, unix.AT_EMPTY_PATH); err != nil {
		return refused(fmt.Errorf("change the owner of the volume's root: %w", err))
	}
	return nil
}

// giveTree gives everything below the root of a volume to a user.
func giveTree(ctx context.Context, volume string, to IDs) error {
	root, err := safefs.Open(volume)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // a directory
	w := walk{ctx: ctx, to: to}
	return refused(w.give(root, ".", 0))
}

// walk is one change.
type walk struct {
	ctx   context.Context
	to    IDs
	files int
}

// give changes what is in a directory. name is its path, for messages.
func (w *walk) give(d *safefs.Dir, name string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("directory %s is more than %d levels deep", name, maxDepth)
	}
	return d.Each(func(entry string, info safefs.Info) error {
		at := path.Join(name, entry)
		if w.files++; w.files > maxFiles {
			return fmt.Errorf("the volume has more than %d files: change their owner by hand, and that of the root last", maxFiles)
		}
		if w.ctx.Err() != nil {
			return fmt.Errorf("change the owner of %s: %w", at, context.Cause(w.ctx))
		}
		if d.Mounted(entry) {
			return nil // another file system
		}
		if info.Mode.IsDir() {
			if err := w.giveDir(d, entry, at, depth); err != nil {
				return err
			}
		}
		return ignoreMissing(d.SetOwner(entry, w.to.UID, w.to.GID))
	})
}

func (w *walk) giveDir(d *safefs.Dir, entry, at string, depth int) error {
	sub, err := d.SubNoXDev(entry)
	if errors.Is(err, safefs.ErrEscape) || errors.Is(err, unix.ENOTDIR) {
		return nil // exchanged meanwhile, for a link or a mount
	}
	if err != nil {
		return ignoreMissing(err)
	}
	defer sub.Close() //nolint:errcheck // a directory
	return w.give(sub, at, depth+1)
}

// ignoreMissing drops the error of a file that was removed meanwhile.
func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// refused explains the error of a file system that has no owners, or does not let root change them.
func refused(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: the file system of the volume does not let root change owners: remove owner = \"task\", and prepare the owner "+
			"in the storage system", err)
	}
	return err
}
