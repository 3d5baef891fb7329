// Package safefs works on files below a directory that a hostile process may change at the same
// time. Every lookup starts at a directory descriptor and uses
// openat2(RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS|RESOLVE_NO_MAGICLINKS). A name therefore cannot
// leave the directory or pass through a link, and the object that was checked is the object used.
// The functions of openat.go do such lookups for callers that work with plain descriptors. A test in
// internal/arch ensures that no other package calls openat2.
//
// "One level down" means that a name is a single path element, without slashes.
//
// A file is replaced atomically. The new file has a random name in the same directory. It gets its
// owner and mode through its descriptor, and is then renamed. A link planted at the name is
// replaced, never followed.
//
// The package needs Linux 5.6 or newer and starts no goroutine.
package safefs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrEscape is wrapped in the error for a name that leaves its directory or passes through a link.
var ErrEscape = errors.New("path leaves its directory or passes through a link")

// Dir is an open directory. Its methods may be called concurrently.
type Dir struct{ f *os.File }

// Open opens a directory by a path that no task can change. The last element must not be a link.
func Open(name string) (*Dir, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open directory", Path: name, Err: err}
	}
	return &Dir{os.NewFile(uintptr(fd), name)}, nil
}

// Close closes the directory.
func (d *Dir) Close() error { return d.f.Close() }

// Name returns the path that the directory was opened by. Use it in messages only.
func (d *Dir) Name() string { return d.f.Name() }

// FD returns the descriptor, which is valid until Close.
func (d *Dir) FD() int { return int(d.f.Fd()) }

// Sub opens a directory below this one.
func (d *Dir) Sub(name string) (*Dir, error) {
	fd, err := d.openat(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Dir{os.NewFile(uintptr(fd), path.Join(d.Name(), name))}, nil
}

// Make opens the directory name, one level down, and creates it if it does not exist. In both cases
// it sets the mode, regardless of the umask.
func (d *Dir) Make(name string, mode fs.FileMode) (*Dir, error) {
	if err := single(name); err != nil {
		return nil, err
	}
	err := unix.Mkdirat(d.FD(), name, 0o700)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, d.fail("make directory", name, err)
	}
	sub, err := d.Sub(name)
	if err != nil {
		return nil, err
	}
	if err := sub.Chmod(mode); err != nil {
		sub.Close() // the error of Chmod is returned
		return nil, err
	}
	return sub, nil
}

// MakeAll opens the directory name and creates missing directories on the way with mode and owner.
// Existing directories keep their mode and owner.
func (d *Dir) MakeAll(name string, mode fs.FileMode, uid, gid int) (*Dir, error) {
	at, err := d.Sub(".")
	if err != nil {
		return nil, err
	}
	for _, part := range strings.Split(path.Clean(name), "/") {
		if part == "." {
			continue
		}
		next, err := at.step(part, mode, uid, gid)
		at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// step opens a directory one level down. If it creates the directory, it sets mode and owner.
func (d *Dir) step(name string, mode fs.FileMode, uid, gid int) (*Dir, error) {
	sub, err := d.Sub(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return sub, err
	}
	if sub, err = d.Make(name, mode); err != nil {
		return nil, err
	}
	if err := sub.Chown(uid, gid); err != nil {
		sub.Close() // the error of Chown is returned
		return nil, err
	}
	return sub, nil
}

// MakeAllNoXDev opens the directory name, and creates missing directories on the way. A mount point on the way, or at its end, is an
// error (ErrEscape), and its file system is not called. The umask applies to the mode.
func (d *Dir) MakeAllNoXDev(name string, mode fs.FileMode) (*Dir, error) {
	at, err := d.Sub(".")
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		err := single(part)
		if err == nil {
			err = unix.Mkdirat(at.FD(), part, unixMode(mode))
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			err = at.fail("make directory", part, err)
			at.Close() // the error of Mkdirat is returned
			return nil, err
		}
		next, err := at.SubNoXDev(part)
		at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// Chmod sets the mode of the directory itself.
func (d *Dir) Chmod(mode fs.FileMode) error {
	if err := unix.Fchmod(d.FD(), unixMode(mode)); err != nil {
		return d.fail("chmod", ".", err)
	}
	return nil
}

// Chown sets the owner of the directory itself; -1 keeps the current uid or gid.
func (d *Dir) Chown(uid, gid int) error {
	if uid == -1 && gid == -1 {
		return nil
	}
	if err := unix.Fchown(d.FD(), uid, gid); err != nil {
		return d.fail("chown", ".", err)
	}
	return nil
}

// Open opens a regular file below the directory for reading. It does not block on a FIFO and does
// not open a device.
func (d *Dir) Open(name string) (*os.File, error) {
	fd, err := d.openat(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path.Join(d.Name(), name))
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		f.Close()
		return nil, d.fail("open", name, errors.New("not a regular file"))
	}
	return f, nil
}

// ReadFile reads a file of at most limit bytes.
func (d *Dir) ReadFile(name string, limit int64) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, d.fail("read", name, fmt.Errorf("larger than %d bytes", limit))
	}
	return b, nil
}

// Exists reports whether name exists, one level down.
func (d *Dir) Exists(name string) bool {
	var st unix.Stat_t
	return single(name) == nil && unix.Fstatat(d.FD(), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// Names lists the directory. A second call on the same Dir continues where the first one ended.
func (d *Dir) Names() ([]string, error) { return d.f.Readdirnames(-1) }

// openat opens a name below the directory.
func (d *Dir) openat(name string, flags int, mode fs.FileMode) (int, error) {
	fd, err := openat2(d.FD(), name, unix.OpenHow{
		Flags:   uint64(flags | unix.O_NOFOLLOW),
		Mode:    uint64(unixMode(mode)),
		Resolve: beneath,
	})
	if err != nil {
		return -1, d.fail("open", name, err)
	}
	return fd, nil
}

// fail adds the operation and the path to err. A refused lookup wraps ErrEscape.
func (d *Dir) fail(op, name string, err error) error {
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) {
		err = fmt.Errorf("%w: %w", ErrEscape, err)
	}
	return &fs.PathError{Op: op, Path: path.Join(d.Name(), name), Err: err}
}

// single refuses a name that is not a single path element.
func single(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return &fs.PathError{Op: "name", Path: strconv.Quote(name), Err: ErrEscape}
	}
	return nil
}

// unixMode converts a mode, including the setuid, setgid and sticky bits.
func unixMode(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	if m&fs.ModeSetuid != 0 {
		bits |= unix.S_ISUID
	}
	if m&fs.ModeSetgid != 0 {
		bits |= unix.S_ISGID
	}
	if m&fs.ModeSticky != 0 {
		bits |= unix.S_ISVTX
	}
	return bits
}
