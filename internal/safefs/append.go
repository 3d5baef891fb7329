package safefs

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Append opens the regular file name, one level down, for reading and appending. It creates a
// missing file with mode. An existing file keeps its mode and owner.
func (d *Dir) Append(name string, mode fs.FileMode) (*os.File, error) {
	if err := single(name); err != nil {
		return nil, err
	}
	fd, err := d.openat(name, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT|unix.O_NONBLOCK|unix.O_NOCTTY, mode)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path.Join(d.Name(), name))
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if !info.Mode().IsRegular() {
		f.Close()
		return nil, d.fail("open", name, errors.New("not a regular file"))
	}
	return f, nil
}

// Rename renames from to to, both one level down. It fails if to exists.
func (d *Dir) Rename(from, to string) error {
	if err := errors.Join(single(from), single(to)); err != nil {
		return err
	}
	if err := unix.Renameat2(d.FD(), from, d.FD(), to, unix.RENAME_NOREPLACE); err != nil {
		return d.fail("rename", from, err)
	}
	return nil
}

// Stat returns the FileInfo of the open directory.
func (d *Dir) Stat() (fs.FileInfo, error) { return d.f.Stat() }
