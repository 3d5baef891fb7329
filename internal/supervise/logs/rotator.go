package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// openDir opens the directory of the log files. Tasks can write around it, so only Root is
// trusted.
func openDir(l proc.Logs) (*os.File, error) {
	root, err := unix.Open(l.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open log root %s: %w", l.Root, err)
	}
	defer unix.Close(root)
	dir := l.Dir
	if dir == "" {
		dir = "."
	}
	fd, err := safefs.OpenBeneath(root, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("open log directory %s in %s: %w", dir, l.Root, err)
	}
	return os.NewFile(uintptr(fd), "logs"), nil
}

// rotator writes one stream to <name>.0, <name>.1, … and keeps the last few files. The index lists
// the files; other files in the directory do not count.
type rotator struct {
	dir    *os.File
	index  *index
	stream string
	name   string
	keep   int
	max    int64

	files     []proc.LogFile // oldest first; the last one is the current file
	file      *os.File
	size      int64
	copy      bool   // the file system does not support splice
	unwritten []byte // with copy: read from the pipe, not yet written
}

// newRotator continues with the files of an earlier start of the task.
func newRotator(l proc.Logs, stream string, x *index) (*rotator, error) {
	dir, err := openDir(l)
	if err != nil {
		return nil, err
	}
	r := &rotator{dir: dir, index: x, stream: stream, name: l.Name + "." + stream, keep: l.MaxFiles, max: l.MaxBytes,
		files: x.of(stream)}
	if err := r.begin(); err != nil {
		dir.Close()
		r.file.Close() // nil is allowed
		return nil, err
	}
	return r, nil
}

// begin opens the current file, or the next one if that is full or missing.
func (r *rotator) begin() error {
	if len(r.files) == 0 {
		return r.rotate()
	}
	last := r.files[len(r.files)-1]
	f, size, err := openOwn(int(r.dir.Fd()), r.fileName(last.N), last.Ino)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, errNotOwn):
		return r.rotate()
	case err != nil:
		return err
	}
	r.file, r.size = f, size
	if size >= r.max {
		return r.rotate()
	}
	return nil
}

// rotate switches to the next file. On error the current file stays.
func (r *rotator) rotate() error {
	n := 0
	if len(r.files) > 0 {
		n = r.files[len(r.files)-1].N + 1
	}
	f, err := r.create(n)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return err
	}
	files := append(slices.Clone(r.files), proc.LogFile{N: n, Ino: st.Ino})
	old := files[:max(0, len(files)-r.keep)]
	files = files[len(old):]
	if err := r.index.set(r.stream, files); err != nil {
		f.Close()
		return err
	}
	if r.file != nil {
		r.file.Close()
	}
	r.file, r.size, r.files = f, 0, files
	r.prune(old)
	return nil
}

// prune removes files of the log. A replacement made by a task stays.
func (r *rotator) prune(old []proc.LogFile) {
	for _, f := range old {
		var st unix.Stat_t
		err := unix.Fstatat(int(r.dir.Fd()), r.fileName(f.N), &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && f.Is(&st) {
			unix.Unlinkat(int(r.dir.Fd()), r.fileName(f.N), 0) //nolint:errcheck // a leftover log file is harmless
		}
	}
}

// createTries limits how often a task can interfere with the creation of a file.
const createTries = 64

// create makes file n. It first moves away anything that a task put there.
func (r *rotator) create(n int) (*os.File, error) {
	name, dir := r.fileName(n), int(r.dir.Fd())
	for range createTries {
		f, err := makeLog(dir, name)
		if err == nil || !errors.Is(err, unix.EEXIST) {
			return f, err
		}
		if f, err = r.displace(name); err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("make log file %s: a task replaces it repeatedly", name)
}

// displace makes a file and exchanges it for the one with its name. This works for any type of
// file, also a directory that is not empty.
func (r *rotator) displace(name string) (*os.File, error) {
	dir := int(r.dir.Fd())
	random := make([]byte, 8)
	if _, err := unix.Getrandom(random, 0); err != nil {
		return nil, err
	}
	aside := fmt.Sprintf(".%s.%x", name, random)
	f, err := makeLog(dir, aside)
	if err != nil {
		return nil, err
	}
	err = unix.Renameat2(dir, aside, dir, name, unix.RENAME_EXCHANGE)
	if unix.Unlinkat(dir, aside, 0) != nil {
		unix.Unlinkat(dir, aside, unix.AT_REMOVEDIR) //nolint:errcheck // a directory that is not empty stays, under this name
	}
	if err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "exchange", Path: name, Err: err}
	}
	return f, nil
}

// makeLog makes an empty log file under an unused name.
func makeLog(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

var errNotOwn = errors.New("not a file of the supervisor")

// openOwn opens a file that only the supervisor can have made: a regular one, with one link, and
// with the inode number unless that is 0. Any other file is not opened, since opening alone can
// have side effects.
func openOwn(dir int, name string, ino uint64) (*os.File, int64, error) {
	at, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return nil, 0, err
	}
	if !proc.OwnFile(&st) || st.Nlink != 1 || ino != 0 && st.Ino != ino {
		return nil, 0, errNotOwn
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(at), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	return os.NewFile(uintptr(fd), name), st.Size, nil
}

func (r *rotator) fileName(n int) string { return r.name + "." + strconv.Itoa(n) }

// take moves the content of the pipe to the file: n == 0 is end of file, EAGAIN means that the pipe
// is empty. The bytes never pass through this process, so that its death loses none.
func (r *rotator) take(pipe int) (n int64, err error) {
	if r.size >= r.max {
		if err := r.rotate(); err != nil {
			return 0, err
		}
	}
	if r.copy {
		n, err = r.takeCopy(pipe)
	} else {
		off := r.size
		n, err = unix.Splice(pipe, nil, int(r.file.Fd()), &off, int(min(r.max-r.size, 1<<20)), unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		if err == unix.EINVAL {
			r.copy = true
			return r.takeCopy(pipe)
		}
	}
	if n > 0 {
		r.size += n
	}
	return max(n, 0), err
}

// takeAll moves everything that is in the pipe now.
func (r *rotator) takeAll(pipe int) error {
	left, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
	if err != nil {
		return fmt.Errorf("read the size of the content of a log pipe: %w", err)
	}
	for left > 0 || len(r.unwritten) > 0 {
		switch n, err := r.take(pipe); {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return nil
		case err != nil || n == 0:
			return err
		default:
			left -= int(n)
		}
	}
	return nil
}

// takeCopy is take for file systems without splice. Bytes that cannot be written are kept for the
// next call.
func (r *rotator) takeCopy(pipe int) (int64, error) {
	if len(r.unwritten) == 0 {
		buf := make([]byte, min(r.max-r.size, 64<<10))
		n, err := unix.Read(pipe, buf)
		if n <= 0 {
			return 0, err
		}
		r.unwritten = buf[:n]
	}
	n, err := r.file.WriteAt(r.unwritten, r.size)
	r.unwritten = r.unwritten[n:]
	return int64(n), err
}
