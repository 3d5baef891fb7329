package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// openLogDir opens the directory of the log files. Tasks can write around there,
// so only Root is taken at its word.
func openLogDir(l proc.Logs) (*os.File, error) {
	root, err := unix.Open(l.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open log root %s: %w", l.Root, err)
	}
	defer unix.Close(root)
	dir := l.Dir
	if dir == "" {
		dir = "."
	}
	fd, err := unix.Openat2(root, dir, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, fmt.Errorf("open log directory %s in %s: %w", dir, l.Root, err)
	}
	return os.NewFile(uintptr(fd), "logs"), nil
}

// rotator writes one stream to <name>.0, <name>.1, … keeping the last few. Which of them
// exist is what the index says, not what lies in the directory.
type rotator struct {
	dir    *os.File
	index  *logIndex
	stream string
	name   string
	keep   int
	max    int64

	files []proc.LogFile // oldest first; the last one is the current file
	file  *os.File
	size  int64
	copy  bool   // the file system can't splice
	held  []byte // then: taken from the pipe and not yet in the file
}

// newRotator goes on where an earlier start of the task left off.
func newRotator(l proc.Logs, stream string, index *logIndex) (*rotator, error) {
	dir, err := openLogDir(l)
	if err != nil {
		return nil, err
	}
	r := &rotator{dir: dir, index: index, stream: stream, name: l.Name + "." + stream, keep: l.MaxFiles, max: l.MaxBytes,
		files: index.of(stream)}
	if err := r.begin(); err != nil {
		dir.Close()
		r.file.Close() // nil is fine
		return nil, err
	}
	return r, nil
}

// begin opens the current file, or the next one if that is full, or not there any more.
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

// rotate goes on to the next file. If that fails the current file stays.
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

// prune removes files of the log. What a task put in the place of one stays.
func (r *rotator) prune(old []proc.LogFile) {
	for _, f := range old {
		var st unix.Stat_t
		err := unix.Fstatat(int(r.dir.Fd()), r.fileName(f.N), &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && f.Is(&st) {
			unix.Unlinkat(int(r.dir.Fd()), r.fileName(f.N), 0) //nolint:errcheck // a leftover log file harms nobody
		}
	}
}

// createTries bounds how often a task can get in the way of a new file.
const createTries = 64

// create makes file n. What a task put there before is moved out of the way.
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
	return nil, fmt.Errorf("make log file %s: a task gets in the way", name)
}

// displace makes a file and exchanges it for what has its name: that works for whatever lies
// there, also a directory with something in it.
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
		unix.Unlinkat(dir, aside, unix.AT_REMOVEDIR) //nolint:errcheck // one that is not empty stays, out of the way
	}
	if err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "exchange", Path: name, Err: err}
	}
	return f, nil
}

// makeLog makes an empty log file, where nothing may be yet.
func makeLog(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

var errNotOwn = errors.New("not a file of ours")

// openOwn opens a file that can only be of our own making: a regular one, with one name, and
// with the inode number unless that is 0. What a task put there instead is not even opened,
// which alone can do something.
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

// take moves what the pipe holds to the file: n == 0 is end of file, EAGAIN that
// the pipe is empty. The bytes never pass through this process, so that its death
// loses none.
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

// takeAll moves what the pipe holds now.
func (r *rotator) takeAll(pipe int) error {
	left, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
	if err != nil {
		return fmt.Errorf("ask what a log pipe holds: %w", err)
	}
	for left > 0 || len(r.held) > 0 {
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

// takeCopy is take for file systems that can't splice. What can't be written is
// held for the next time.
func (r *rotator) takeCopy(pipe int) (int64, error) {
	if len(r.held) == 0 {
		buf := make([]byte, min(r.max-r.size, 64<<10))
		n, err := unix.Read(pipe, buf)
		if n <= 0 {
			return 0, err
		}
		r.held = buf[:n]
	}
	n, err := r.file.WriteAt(r.held, r.size)
	r.held = r.held[n:]
	return int64(n), err
}

// pump moves one stream until the last writer is gone.
type pump struct {
	pipe *os.File // reading end, nonblocking
	to   *rotator
	done chan struct{}
	stop chan struct{}
	once sync.Once
	err  error // what went wrong last, for the log
	// fault is called when the log cannot be written to, and with nil when it can be again.
	fault func(error)
}

// retryWrite is how long a pump waits before it tries a full disk again. The task
// waits with it: no byte is dropped.
const retryWrite = time.Second

func newPump(pipe *os.File, to *rotator) *pump {
	return &pump{pipe: pipe, to: to, done: make(chan struct{}), stop: make(chan struct{}), fault: func(error) {}}
}

func (p *pump) run() {
	defer close(p.done)
	defer p.close()
	conn, err := p.pipe.SyscallConn()
	if err != nil {
		p.err = err
		return
	}
	for {
		var n int64
		var opErr error
		err := conn.Read(func(fd uintptr) bool {
			n, opErr = p.to.take(int(fd))
			return opErr != unix.EAGAIN
		})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded): // told to stop
			p.err = p.rest()
			return
		case err != nil:
			p.err = err
			return
		case opErr == unix.EINTR:
		case opErr != nil:
			p.failed(opErr)
			select {
			case <-p.stop:
				p.err = p.rest()
				return
			case <-time.After(retryWrite):
			}
		case n == 0:
			return
		default:
			p.failed(nil)
		}
	}
}

// failed keeps how the last write went, and reports when that changes.
func (p *pump) failed(err error) {
	changed := (err == nil) != (p.err == nil)
	p.err = err
	if changed {
		p.fault(err)
	}
}

// rest moves what is in the pipe by now, and nothing that is written later: there may
// be somebody who never stops writing.
func (p *pump) rest() error {
	conn, err := p.pipe.SyscallConn()
	if err != nil {
		return err
	}
	var opErr error
	if err := conn.Control(func(fd uintptr) { opErr = p.to.takeAll(int(fd)) }); err != nil {
		return err
	}
	return opErr
}

// finish waits until the stream has ended, for at most patience; then it cuts off
// writers that outlived the task. What was written before is in the files by then,
// however long that takes.
func (p *pump) finish(patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
		return
	case <-timer.C:
	}
	p.once.Do(func() { close(p.stop) })
	p.pipe.SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // a pipe takes deadlines
	<-p.done
}

func (p *pump) close() {
	p.pipe.Close()
	p.to.file.Close()
	p.to.dir.Close()
}
