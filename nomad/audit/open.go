package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// openDir opens the directory of the file and creates it if necessary. It refuses a directory
// in which other users could rename files.
func openDir(path string, own bool) (*safefs.Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	dir, err := safefs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: the directory must not be a symbolic link", err)
	}
	info, err := dir.Stat()
	if err == nil {
		err = trusted(path, info, own)
	}
	if err == nil && own {
		err = dir.Chmod(0o700)
	}
	if err != nil {
		dir.Close() // nothing was done with it
		return nil, err
	}
	return dir, nil
}

// trusted refuses a directory in which other users may change names.
func trusted(path string, info fs.FileInfo, own bool) error {
	uid := owner(info)
	switch {
	case uid != os.Geteuid() && (own || uid != 0):
		return fmt.Errorf("%s belongs to user %d: only the agent's user may be able to change an audit log", path, uid)
	case !own && info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s is writable by others (mode %04o): put the audit log in its own directory", path, info.Mode().Perm())
	}
	return nil
}

func owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// taken is an open and locked file that was checked.
type taken struct {
	f     *os.File
	size  int64
	begun time.Time
	torn  bool
}

// opening is where and how the file of a log is opened.
type opening struct {
	dir  *safefs.Dir
	mode fs.FileMode
	now  time.Time
}

// take opens a file of the directory. If it is the old file, take leaves that open.
func (o opening) take(name string, old *os.File) (t taken, err error) {
	if t.f, err = o.dir.Append(name, 0o600); err != nil {
		return t, err
	}
	info, err := t.f.Stat()
	if err == nil && old != nil {
		if was, statErr := old.Stat(); statErr == nil && os.SameFile(was, info) {
			err = errors.Join(fit(old, info, o.mode), t.f.Close())
			t.f = old
			return t, err
		}
	}
	if err == nil {
		err = fit(t.f, info, o.mode)
	}
	if err == nil {
		err = lock(t.f)
	}
	if err != nil {
		t.f.Close() // nothing was done with it
		return taken{}, err
	}
	t.size, t.begun, t.torn = info.Size(), birth(t.f, info, o.now), isTorn(t.f, info.Size())
	return t, nil
}

// fit refuses a file of another user and corrects the file's mode.
func fit(f *os.File, info fs.FileInfo, mode fs.FileMode) error {
	st := info.Sys().(*syscall.Stat_t)
	switch {
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d: an audit log must belong to the agent's user; move the file away", f.Name(), st.Uid)
	case st.Nlink > 1:
		return fmt.Errorf("%s has a second name (a hard link): move it away", f.Name())
	case info.Mode().Perm() != mode:
		return f.Chmod(mode)
	}
	return nil
}

// lockPatience is how long an agent waits for another one that is about to end.
const lockPatience = 2 * time.Second

// lock locks the file. Two processes that rotate it would lose lines.
func lock(f *os.File) error {
	err := safefs.Lock(f, lockPatience)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%s is in use by another agent: give each agent its own path", f.Name())
	}
	return err
}

// birth returns the creation time of a file, or now if the file is empty or the time is
// unknown.
func birth(f *os.File, info fs.FileInfo, now time.Time) time.Time {
	var st unix.Statx_t
	if info.Size() == 0 || unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st) != nil || st.Mask&unix.STATX_BTIME == 0 {
		return now
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
}

// isTorn reports whether the last line of a file is incomplete because a process died while
// writing.
func isTorn(f *os.File, size int64) bool {
	if size == 0 {
		return false
	}
	var last [1]byte
	_, err := f.ReadAt(last[:], size-1)
	return err != nil || last[0] != '\n'
}
