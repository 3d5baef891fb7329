package docker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// leaves reports whether a path leaves its directory by a link or by "..".
func leaves(err error) bool { return errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ELOOP) }

// openFlags are those of files that are only mounted.
const openFlags = unix.O_PATH | unix.O_CLOEXEC

// openBelow opens name below top, a directory in the allocation's directory. Links are followed, but not
// out of top. A missing directory is created.
func openBelow(allocDir, top, name string) (*os.File, error) {
	inside, err := filepath.Rel(allocDir, top)
	if err != nil {
		return nil, err
	}
	dir, err := openOwn(allocDir, inside)
	if err != nil {
		return nil, err
	}
	f, err := openLinked(int(dir.Fd()), name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = makeParents(int(dir.Fd()), name)
	}
	dir.Close() //nolint:errcheck // opened with O_PATH
	return f, err
}

// openOwn opens a file of the agent below an allocation's directory. No link is followed.
func openOwn(allocDir, name string) (*os.File, error) {
	dir, err := safefs.Open(allocDir)
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // a directory
	return openFileAt(dir.FD(), name, openFlags)
}

// openExisting opens a file below an allocation's directory. Links are followed, but not out of it.
func openExisting(allocDir, name string) (*os.File, error) {
	dir, err := safefs.Open(allocDir)
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // a directory
	return openLinked(dir.FD(), name)
}

// openLinked opens a file below a directory, following links that stay below it.
func openLinked(dir int, name string) (*os.File, error) {
	fd, err := safefs.OpenBeneathFollow(dir, name, openFlags)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// makeParents creates a directory and its missing parents, below dir.
func makeParents(dir int, name string) (*os.File, error) {
	parent := filepath.Dir(name)
	at, err := openLinked(dir, parent)
	if errors.Is(err, fs.ErrNotExist) && parent != "." {
		at, err = makeParents(dir, parent)
	}
	if err != nil {
		return nil, err
	}
	defer at.Close() //nolint:errcheck // opened with O_PATH
	if err := unix.Mkdirat(int(at.Fd()), filepath.Base(name), 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	// OpenBeneath follows no link: a task may have replaced the new directory by one.
	fd, err := safefs.OpenBeneath(int(at.Fd()), filepath.Base(name), openFlags|unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openNoLinks opens a path that had no links when the agent started.
func openNoLinks(path string) (*os.File, error) {
	fd, err := safefs.OpenNoLinks(path, openFlags)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// fileMode returns the mode of permissions as in chmod.
func fileMode(bits int64) os.FileMode {
	mode := os.FileMode(bits & 0o777)
	for bit, m := range map[int64]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
		if bits&bit != 0 {
			mode |= m
		}
	}
	return mode
}
