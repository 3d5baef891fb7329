package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// logDir holds the logs of all tasks, relative to the allocation's directory.
const logDir = "alloc/logs"

// Log identifies one log of a task.
type Log struct{ Task, Type string }

// check validates the log.
func (l Log) check() error {
	if l.Type != "stdout" && l.Type != "stderr" {
		return apierror.Errorf(http.StatusBadRequest, "log type must be stdout or stderr")
	}
	if l.Task == "" || strings.ContainsAny(l.Task, "/\x00") {
		return apierror.Errorf(http.StatusBadRequest, "must provide task name")
	}
	return nil
}

// file returns the path of the nth file, relative to the allocation's directory.
func (l Log) file(n int) string {
	return path.Join(logDir, l.Task+"."+l.Type+"."+strconv.Itoa(n))
}

// piece is one file of a rotated log.
type piece struct {
	n    int
	ino  uint64
	size int64
}

// StreamLog sends a part of a task's log, across its rotated files. It returns nil at the end
// of the log, unless the log is followed and can still grow.
func (t *Tree) StreamLog(ctx context.Context, l Log, r Range, out Output) error {
	if err := errors.Join(l.check(), r.check()); err != nil {
		return err
	}
	dir, err := t.open(logDir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return explain(logDir, err)
	}
	defer dir.Close()
	var w *watcher
	if r.Follow {
		// Before the first read, so that no change is missed.
		if w, err = watch(dir); err != nil {
			return err
		}
		defer w.close()
	}
	s := &logStream{tree: t, dir: dir, log: l, out: out, watch: w, over: r.Over, remaining: r.Limit, limited: r.Limit > 0}
	return s.run(ctx, r)
}

// logStream streams one log. The position is an offset in file n.
type logStream struct {
	tree      *Tree
	dir       *os.File
	log       Log
	out       Output
	watch     *watcher    // nil unless following
	over      func() bool // Range.Over
	n         int
	ino       uint64
	offset    int64
	remaining int64
	limited   bool
}

func (s *logStream) run(ctx context.Context, r Range) error {
	last := s.ends()
	pieces, err := s.pieces()
	for err == nil && len(pieces) == 0 && !last {
		if err := s.idle(ctx); err != nil {
			return err
		}
		last = s.ends()
		pieces, err = s.pieces()
	}
	if err != nil || len(pieces) == 0 {
		return err // the log is empty
	}
	s.seek(pieces, r)
	for {
		more, err := s.one(ctx)
		if err != nil || !more {
			return err
		}
	}
}

// ends reports whether the current content of the files is all that will be sent.
func (s *logStream) ends() bool { return s.watch == nil || s.over != nil && s.over() }

// seek sets the position to the start of the range, which counts across all files. The end
// without an offset is the start of the newest file, as other clients of the API expect.
func (s *logStream) seek(pieces []piece, r Range) {
	if r.From != nil {
		s.seekTo(pieces, *r.From)
		return
	}
	if r.Origin == OriginEnd && r.Offset == 0 {
		newest := pieces[len(pieces)-1]
		s.n, s.ino, s.offset = newest.n, newest.ino, 0
		return
	}
	var total int64
	for _, p := range pieces {
		total += p.size
	}
	at := r.start(total)
	for _, p := range pieces {
		s.n, s.ino, s.offset = p.n, p.ino, at
		if at < p.size {
			return
		}
		at -= p.size
	}
}

// one sends the rest of file n and moves to the next file. more is false at the end of the log.
func (s *logStream) one(ctx context.Context) (more bool, err error) {
	name := s.log.file(s.n)
	file, err := s.tree.openRegular(name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, errNotRegular) {
		return s.advance() // rotated away before it was read
	}
	if err != nil {
		return false, explain(name, err)
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return false, err
	}
	if !(proc.LogFile{N: s.n, Ino: s.ino}).Is(&st) {
		return s.advance() // a task has replaced the file
	}
	f := &fileStream{file: file, name: name, out: s.out, offset: s.offset, remaining: s.remaining, limited: s.limited}
	for {
		// The end and the next file are checked first: if there is either, this file no longer
		// grows.
		ends := s.ends()
		last, err := s.isLast()
		if err != nil {
			return false, err
		}
		done, err := f.copy(ctx)
		s.offset, s.remaining = f.offset, f.remaining
		if done || err != nil {
			return false, err
		}
		if !last {
			return s.advance()
		}
		if ends {
			return false, nil
		}
		if err := s.idle(ctx); err != nil {
			return false, err
		}
	}
}

// idle waits for a change and sends a heartbeat each second.
func (s *logStream) idle(ctx context.Context) error {
	beat, err := s.watch.wait(ctx)
	if err == nil && beat {
		err = s.out.send(message.StreamFrame{})
	}
	return err
}

// advance moves to the oldest file after n.
func (s *logStream) advance() (more bool, err error) {
	pieces, err := s.pieces()
	if err != nil {
		return false, err
	}
	for _, p := range pieces {
		if p.n > s.n {
			s.n, s.ino, s.offset = p.n, p.ino, 0
			return true, nil
		}
	}
	return false, nil
}

func (s *logStream) isLast() (bool, error) {
	pieces, err := s.pieces()
	if err != nil || len(pieces) == 0 {
		return true, err
	}
	return pieces[len(pieces)-1].n <= s.n, nil
}

// pieces returns the files of the log, oldest first. Only files in the supervisor's index
// count, because a task can create others in the directory.
func (s *logStream) pieces() ([]piece, error) {
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	var pieces []piece
	for _, f := range files {
		var st unix.Stat_t
		err := unix.Fstatat(int(s.dir.Fd()), path.Base(s.log.file(f.N)), &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && f.Is(&st) {
			pieces = append(pieces, piece{f.N, f.Ino, st.Size})
		}
	}
	return pieces, nil
}

// files returns the candidates for files of the log. Without an index, as with allocations of
// earlier versions and drivers that write their own logs, files are identified by their owner.
func (s *logStream) files() ([]proc.LogFile, error) {
	index, err := proc.ReadLogIndex(int(s.tree.dir.Fd()), s.log.Task)
	if !errors.Is(err, unix.ENOENT) {
		return index[s.log.Type], err
	}
	if _, err := s.dir.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	names, err := s.dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	return proc.FindLogs(int(s.dir.Fd()), names, s.log.Task+"."+s.log.Type), nil
}
