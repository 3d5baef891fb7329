// Package files opens the files that the driver reads or mounts for a container. Tasks can create links in the directory of
// their allocation. So a path there is opened once, by descriptors, and the open file is used: no path is looked up twice.
// Links are followed as far as they stay in the given directory. The package starts no goroutine.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// Leaves reports whether a path leaves its directory by a link or by "..".
func Leaves(err error) bool { return errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ELOOP) }

// PathOnly are the flags of files that are only mounted.
const PathOnly = unix.O_PATH | unix.O_CLOEXEC

// Below opens name below top, a directory in the allocation's directory. Links are followed, but not
// out of top. A missing directory is created.
func Below(allocDir, top, name string) (*os.File, error) {
	inside, err := filepath.Rel(allocDir, top)
	if err != nil {
		return nil, err
	}
	dir, err := Own(allocDir, inside)
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

// Own opens a file of the agent below an allocation's directory. No link is followed.
func Own(allocDir, name string) (*os.File, error) {
	dir, err := safefs.Open(allocDir)
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // a directory
	return At(dir.FD(), name, PathOnly)
}

// Existing opens a file below an allocation's directory. Links are followed, but not out of it.
func Existing(allocDir, name string) (*os.File, error) {
	dir, err := safefs.Open(allocDir)
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // a directory
	return openLinked(dir.FD(), name)
}

// openLinked opens a file below a directory, following links that stay below it.
func openLinked(dir int, name string) (*os.File, error) {
	fd, err := safefs.OpenBeneathFollow(dir, name, PathOnly)
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
	fd, err := safefs.OpenBeneath(int(at.Fd()), filepath.Base(name), PathOnly|unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// NoLinks opens a path that had no links when the agent started.
func NoLinks(path string) (*os.File, error) {
	fd, err := safefs.OpenNoLinks(path, PathOnly)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Mode returns the mode of permissions as in chmod.
func Mode(bits int64) os.FileMode {
	mode := os.FileMode(bits & 0o777)
	for bit, m := range map[int64]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
		if bits&bit != 0 {
			mode |= m
		}
	}
	return mode
}

// Readable opens a regular file again, for reading, that was opened with O_PATH.
func Readable(at *os.File) (*os.File, error) {
	info, err := at.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	return os.OpenFile(ProcPath(at), unix.O_RDONLY, 0)
}

// ProcPath returns the path of an open file in /proc.
func ProcPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// At opens a file below an open directory. No link is followed.
func At(dir int, name string, flags int) (*os.File, error) {
	fd, err := safefs.OpenBeneath(dir, name, flags)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
