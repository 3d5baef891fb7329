package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Limits for data that a session has received but not read yet, until a caller is
// authenticated. Streams that wait to be accepted hold such data too.
const (
	maxUnread    = 4 << 20
	freeUnread   = 256 << 10 // not charged to the budget
	streamWindow = 256 << 10 // per stream; yamux allows no smaller window
)

// Offsets in the header of a yamux frame: version, type, flags, stream ID, length.
const (
	frameHeader = 12
	frameType   = 1
	frameLength = 8
	frameData   = 0
)

var errUnread = errors.New("too much unread data on streams")

// Unread counts the unread bytes of a session and charges them to a budget, until a caller is
// authenticated.
type Unread struct {
	budget        *Budget
	authenticated func() bool

	mu    sync.Mutex
	bytes int
	paid  int
	over  bool  // counting has ended
	fault error // the error that ended the session
}

// NewUnread returns a counter that charges the budget. authenticated reports whether a caller of
// the session has been authenticated.
func NewUnread(b *Budget, authenticated func() bool) *Unread {
	return &Unread{budget: b, authenticated: authenticated}
}

// received adds n bytes.
func (u *Unread) received(n int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return nil
	}
	u.bytes += n
	if u.bytes > maxUnread {
		u.fault = errUnread
	}
	if more := u.bytes - freeUnread - u.paid; more > 0 && u.fault == nil {
		more = max(more, ReadStep)
		if u.budget.TryTake(int64(more)) {
			u.paid += more
		} else {
			u.fault = ErrBusy
		}
	}
	return u.fault
}

// read subtracts n bytes.
func (u *Unread) read(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes -= n
	if spare := u.paid - max(0, u.bytes-freeUnread); spare >= freeUnread || spare == u.paid {
		u.budget.Release(int64(spare))
		u.paid -= spare
	}
}

// End releases the charge and stops the counting. It returns the error that ended the session.
func (u *Unread) End() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.budget.Release(int64(u.paid))
	u.paid, u.over = 0, true
	return u.fault
}

// Conn returns the connection of the session, which counts the data of frames.
func (u *Unread) Conn(conn net.Conn) net.Conn { return &countedConn{Conn: conn, unread: u} }

// Stream returns a stream of the session, which counts the bytes that are read from it.
func (u *Unread) Stream(stream *MuxStream) net.Conn { return &countedStream{stream, u} }

// countedConn is the connection of a session that a peer opened.
type countedConn struct {
	net.Conn
	unread *Unread
	over   bool
	header []byte // the part of the next header that has arrived
	data   int    // bytes of the current frame that are outstanding
}

// Read implements io.Reader.
func (s *countedConn) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.over {
		return n, err
	}
	if s.over = s.unread.authenticated(); s.over {
		s.unread.End() // there is no error: otherwise Read would not have been called
		return n, err
	}
	if err := s.count(p[:n]); err != nil {
		return 0, err
	}
	return n, err
}

// count parses the frame headers. It counts the data of a frame as soon as its header arrives,
// because the session allocates the buffer then.
func (s *countedConn) count(b []byte) error {
	for len(b) > 0 {
		if s.data > 0 {
			n := min(s.data, len(b))
			b, s.data = b[n:], s.data-n
			continue
		}
		n := min(frameHeader-len(s.header), len(b))
		s.header, b = append(s.header, b[:n]...), b[n:]
		if len(s.header) < frameHeader {
			return nil
		}
		if s.header[frameType] == frameData {
			s.data = int(binary.BigEndian.Uint32(s.header[frameLength:]))
			if err := s.unread.received(s.data); err != nil {
				return err
			}
		}
		s.header = s.header[:0]
	}
	return nil
}

// countedStream is a stream of such a session.
type countedStream struct {
	*MuxStream
	unread *Unread
}

// Read implements io.Reader. It releases the buffer of the stream when it is empty.
func (s *countedStream) Read(p []byte) (int, error) {
	n, err := s.MuxStream.Read(p)
	if n > 0 {
		s.unread.read(n)
		s.Stream.Shrink()
	}
	return n, err
}

// Close implements net.Conn. It discards unread data: otherwise a closed stream would keep it
// until the peer closes the stream as well.
func (s *countedStream) Close() error {
	s.SetReadDeadline(time.Now())
	io.CopyN(io.Discard, s, streamWindow) // what has arrived already
	return s.MuxStream.Close()
}
