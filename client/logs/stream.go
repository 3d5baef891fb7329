package logs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Origins of an offset.
const (
	OriginStart = "start"
	OriginEnd   = "end"
)

// Range is the requested part of a file or log.
type Range struct {
	Origin string // OriginStart, also when empty, or OriginEnd
	Offset int64  // from the origin, towards the middle
	Limit  int64  // maximum number of bytes; no limit if not positive
	Follow bool   // continue with data that is written later
	// From is the start in a log, instead of Origin and Offset; nil for those.
	From *Position

	// Over reports whether a followed log has ended. It is called about once per second. A nil
	// Over means that the log never ends.
	Over func() bool
}

// check validates the range.
func (r Range) check() error {
	if r.Origin != "" && r.Origin != OriginStart && r.Origin != OriginEnd {
		return apierror.Errorf(http.StatusBadRequest, "origin must be start or end")
	}
	if r.Offset < 0 {
		return apierror.Errorf(http.StatusBadRequest, "offset must not be negative")
	}
	return nil
}

// start returns the start offset in a file of that size.
func (r Range) start(size int64) int64 {
	if r.Origin == OriginEnd {
		return max(0, size-r.Offset)
	}
	return r.Offset
}

// StreamFile sends a part of one file. It returns nil at its end or, if the file is followed,
// when it is deleted.
func (t *Tree) StreamFile(ctx context.Context, name string, r Range, out Output) error {
	if err := r.check(); err != nil {
		return err
	}
	file, err := t.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	s := &fileStream{
		file: file, name: name, out: out,
		offset: r.start(info.Size()), remaining: r.Limit, limited: r.Limit > 0,
	}
	if !r.Follow {
		_, err := s.copy(ctx)
		return err
	}
	rel, err := clean(name)
	if err != nil {
		return err
	}
	dir, err := t.open(path.Dir(rel), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return explain(name, err)
	}
	defer dir.Close()
	return s.follow(ctx, dir)
}

// fileStream streams one file.
type fileStream struct {
	file      *os.File
	name      string
	out       Output
	offset    int64
	remaining int64 // of a limited stream
	limited   bool
}

// copy sends the data up to the end of the file, and reports whether the limit was reached.
func (s *fileStream) copy(ctx context.Context) (done bool, err error) {
	buf := make([]byte, maxFrame)
	for ctx.Err() == nil {
		want := buf
		if s.limited {
			want = buf[:min(int64(len(buf)), s.remaining)]
		}
		if len(want) == 0 {
			return true, nil
		}
		n, err := s.file.ReadAt(want, s.offset)
		if n > 0 {
			s.offset += int64(n)
			s.remaining -= int64(n)
			// The offset of a frame is the position after its data.
			frame := message.StreamFrame{Offset: s.offset, Data: want[:n], File: s.name}
			if err := s.out.send(frame); err != nil {
				return false, err
			}
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, ctx.Err()
}

// follow copies the data and waits for more, in a loop.
func (s *fileStream) follow(ctx context.Context, dir *os.File) error {
	w, err := watch(dir)
	if err != nil {
		return err
	}
	defer w.close()
	for {
		if done, err := s.copy(ctx); done || err != nil {
			return err
		}
		beat, err := w.wait(ctx)
		if err != nil {
			return err
		}
		gone, err := s.check()
		if gone || err != nil {
			return err
		}
		if beat {
			if err := s.out.send(message.StreamFrame{}); err != nil {
				return err
			}
		}
	}
}

// check sends an event if the file was truncated or deleted.
func (s *fileStream) check() (gone bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(s.file.Fd()), &st); err != nil {
		return false, err
	}
	if st.Size < s.offset {
		s.offset = 0
		err = s.out.send(message.StreamFrame{File: s.name, FileEvent: eventTruncated})
		return false, err
	}
	if st.Nlink > 0 || st.Size > s.offset {
		return false, nil
	}
	return true, s.out.send(message.StreamFrame{Offset: s.offset, File: s.name, FileEvent: eventDeleted})
}
