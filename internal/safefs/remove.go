package safefs

import (
	"errors"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Bounds of removing a tree of arbitrary depth and width.
const (
	removeDepth = 32  // levels open at a time
	removeBatch = 512 // names read at a time
)

// RemoveAll removes name, one level down, and everything below it. Links are removed, never
// followed. A mount point below name is an error (EBUSY), and the mounted file system stays. The
// number of descriptors does not depend on the depth: deeper directories are first moved to the
// top.
func (d *Dir) RemoveAll(name string) error {
	if err := single(name); err != nil {
		return err
	}
	return d.removeTree(name, nil, 0)
}

// removeTree removes name from d. Directories deeper than removeDepth are moved to top, which
// removes them in its next pass.
func (d *Dir) removeTree(name string, top *Dir, depth int) error {
	err := unix.Unlinkat(d.FD(), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return d.fail("remove", name, err)
	}
	if depth >= removeDepth {
		to, err := unique(".removing-")
		if err == nil {
			err = unix.Renameat(d.FD(), name, top.FD(), to)
		}
		if err != nil {
			return d.fail("move up", name, err)
		}
		return nil
	}
	sub, err := d.own(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	if top == nil {
		top = sub
	}
	if err := sub.removeEntries(top, depth); err != nil {
		return err
	}
	if err := unix.Unlinkat(d.FD(), name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return d.fail("remove", name, err)
	}
	return nil
}

// removeEntries empties the directory. It repeats until the directory is empty, since directories
// are moved to it in between.
func (d *Dir) removeEntries(top *Dir, depth int) error {
	for {
		if _, err := d.f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		names, err := d.f.Readdirnames(removeBatch)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return d.fail("list", ".", err)
		}
		var errs []error
		for _, name := range names {
			errs = append(errs, d.removeTree(name, top, depth+1))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
}

// SubNoXDev opens a directory below this one. A mount point on the way, or at its end, is an error (ErrEscape).
func (d *Dir) SubNoXDev(name string) (*Dir, error) {
	fd, err := OpenBeneathNoXDev(d.FD(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, d.fail("open", name, err)
	}
	return &Dir{os.NewFile(uintptr(fd), path.Join(d.Name(), name))}, nil
}

// own opens a directory on the same file system.
func (d *Dir) own(name string) (*Dir, error) {
	fd, err := OpenBeneathNoXDev(d.FD(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if errors.Is(err, unix.EXDEV) {
		err = unix.EBUSY
	}
	if err != nil {
		return nil, d.fail("open", name, err)
	}
	return &Dir{os.NewFile(uintptr(fd), path.Join(d.Name(), name))}, nil
}
