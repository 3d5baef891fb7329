package safefs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Info is the status of a directory entry. Links are not followed.
type Info struct {
	Mode     fs.FileMode
	Size     int64
	Disk     int64  // bytes allocated on disk
	Links    uint64 // number of hard links
	UID, GID int
	ID       ID
}

// ID identifies a file. Names of the same file have the same one.
type ID struct{ Device, Inode uint64 }

// Each calls visit for each entry of the directory, in the order of the directory. It reads the names in
// batches, so that a large directory needs little memory. An entry that was removed in the meantime is
// skipped, and a removed directory is empty.
func (d *Dir) Each(visit func(name string, info Info) error) error {
	list, err := d.Sub(".")
	if err != nil {
		return err
	}
	defer list.Close()
	for {
		names, err := list.f.Readdirnames(removeBatch)
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) { // at its end, or removed
			return nil
		}
		if err != nil {
			return d.fail("list", ".", err)
		}
		for _, name := range names {
			info, err := d.Lstat(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if err := visit(name, info); err != nil {
				return err
			}
		}
	}
}

// Lstat returns the status of name, one level down.
func (d *Dir) Lstat(name string) (Info, error) {
	if err := single(name); err != nil {
		return Info{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(d.FD(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Info{}, d.fail("stat", name, err)
	}
	return Info{
		Mode: fileMode(st.Mode), Size: st.Size, Disk: st.Blocks * 512, Links: uint64(st.Nlink), UID: int(st.Uid), GID: int(st.Gid),
		ID: ID{st.Dev, st.Ino},
	}, nil
}

// fileMode converts a mode of stat(2).
func fileMode(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	for bit, is := range map[uint32]fs.FileMode{
		unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky,
	} {
		if m&bit != 0 {
			mode |= is
		}
	}
	switch m & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	default:
		mode |= fs.ModeIrregular
	}
	return mode
}

// maxTarget is the maximum length of the target of a link (PATH_MAX).
const maxTarget = 4096

// ReadLink returns the target of the symbolic link name, one level down.
func (d *Dir) ReadLink(name string) (string, error) {
	if err := single(name); err != nil {
		return "", err
	}
	buf := make([]byte, maxTarget)
	n, err := unix.Readlinkat(d.FD(), name, buf)
	if err != nil {
		return "", d.fail("read link", name, err)
	}
	if n == len(buf) {
		return "", d.fail("read link", name, errors.New("target is too long"))
	}
	return string(buf[:n]), nil
}

// SetMode sets the mode of a file or directory, one level down. A link is an error.
func (d *Dir) SetMode(name string, mode fs.FileMode) error {
	if err := single(name); err != nil {
		return err
	}
	fd, err := d.openat(name, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// The magic link leads to the opened object. Chmod fails with EOPNOTSUPP if that is a link.
	if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), unixMode(mode)); err != nil {
		return d.fail("chmod", name, err)
	}
	return nil
}

// SetOwner sets the owner of name, one level down, also of a link itself; -1 keeps the current uid or
// gid.
func (d *Dir) SetOwner(name string, uid, gid int) error {
	if err := single(name); err != nil {
		return err
	}
	if uid == -1 && gid == -1 {
		return nil
	}
	if err := unix.Fchownat(d.FD(), name, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return d.fail("chown", name, err)
	}
	return nil
}

// Temp creates and opens a directory with a random name that begins with prefix, one level down.
func (d *Dir) Temp(prefix string, mode fs.FileMode) (*Dir, string, error) {
	name, err := unique(prefix)
	if err == nil {
		err = single(name)
	}
	if err != nil {
		return nil, "", err
	}
	if err := unix.Mkdirat(d.FD(), name, 0o700); err != nil {
		return nil, "", d.fail("make directory", name, err)
	}
	sub, err := d.Sub(name)
	if err != nil {
		return nil, "", err
	}
	if err := sub.Chmod(mode); err != nil {
		sub.Close() // the error of Chmod is returned
		return nil, "", err
	}
	return sub, name, nil
}

// Create creates and opens the file name, one level down, for reading and writing. An existing file is an
// error.
func (d *Dir) Create(name string, mode fs.FileMode) (*os.File, error) {
	if err := single(name); err != nil {
		return nil, err
	}
	fd, err := d.openat(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path.Join(d.Name(), name))
	if err := f.Chmod(mode); err != nil {
		f.Close() // the error of Chmod is returned
		return nil, err
	}
	return f, nil
}

// MakeBlockDevice creates the node name of a block device, one level down. An existing name is an error.
func (d *Dir) MakeBlockDevice(name string, device uint64, mode fs.FileMode) error {
	if err := single(name); err != nil {
		return err
	}
	if err := unix.Mknodat(d.FD(), name, unix.S_IFBLK|0o600, int(device)); err != nil {
		return d.fail("make device node", name, err)
	}
	return d.SetMode(name, mode)
}

// RemoveEmpty removes the directory name, one level down. A missing one is not an error; one with entries is.
func (d *Dir) RemoveEmpty(name string) error {
	if err := single(name); err != nil {
		return err
	}
	if err := unix.Unlinkat(d.FD(), name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return d.fail("remove", name, err)
	}
	return nil
}

// Move renames from in d to as in to, both one level down. An existing file or link there is replaced,
// never followed; an existing directory is an error unless it is empty and from is a directory too.
func (d *Dir) Move(from string, to *Dir, as string) error {
	if err := errors.Join(single(from), single(as)); err != nil {
		return err
	}
	if err := unix.Renameat(d.FD(), from, to.FD(), as); err != nil {
		if !errors.Is(err, unix.EXDEV) { // of other file systems, not of a lookup
			return d.fail("rename", from, err)
		}
		return &fs.PathError{Op: "rename", Path: path.Join(d.Name(), from), Err: err}
	}
	return nil
}

// Copy copies the content of from to to, from the start of both. The copies share their blocks if the file
// system can do that. It never makes a hard link.
func Copy(to, from *os.File) error {
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil {
		return nil
	}
	// Other file systems, and those that cannot clone, fail with various errors.
	_, err := from.Seek(0, io.SeekStart)
	if err == nil {
		_, err = to.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = io.Copy(to, from)
	}
	if err != nil {
		return fmt.Errorf("copy to %s: %w", to.Name(), err)
	}
	return nil
}

// Symlink creates the symbolic link name, one level down. An existing name is an error. The target is not
// checked.
func (d *Dir) Symlink(target, name string) error {
	if err := single(name); err != nil {
		return err
	}
	if err := unix.Symlinkat(target, d.FD(), name); err != nil {
		return d.fail("make link", name, err)
	}
	return nil
}
