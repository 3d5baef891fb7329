package rpc

import (
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

// session is a yamux session that ends without busy loops, however many streams are waiting.
//
// When a session of yamux v0.1.2 ends, it closes three things in this order: a channel that wakes
// all waiting streams, the connection, and the streams. A stream that is awake but not closed yet
// repeats its Read without a pause. So does a Write that waits for its send window. With a thousand
// such streams all cores are busy, and the goroutine that closes the streams gets no CPU time.
//
// Therefore session first sets a past deadline on all streams. It does so before it closes the yamux
// session, and before yamux gets an error of the connection. If yamux ends the session itself, after a
// protocol error or a missed keepalive, the deadlines are set when yamux closes the connection.
type session struct {
	*yamux.Session
	once  sync.Once
	ended atomic.Bool // the deadlines of all streams have passed, or are being set

	mu      sync.Mutex
	streams map[*muxStream]struct{} // the open ones
}

// newSession starts a session over a connection. side is yamux.Server or yamux.Client.
func newSession(conn net.Conn, cfg *yamux.Config, side func(io.ReadWriteCloser, *yamux.Config) (*yamux.Session, error)) (*session, error) {
	s := &session{streams: map[*muxStream]struct{}{}}
	var err error
	if s.Session, err = side(&sessionConn{Conn: conn, session: s}, cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// sessionConn is the connection of a session. It ends the streams before yamux ends the session.
type sessionConn struct {
	net.Conn
	session *session
	fault   error // of the last Read, which also returned data
}

// Read implements net.Conn. It returns data and an error separately, so that streams receive
// all data before they end.
func (c *sessionConn) Read(p []byte) (int, error) {
	n, err := 0, c.fault
	if err == nil {
		n, err = c.Conn.Read(p)
	}
	if n > 0 {
		c.fault = err
		return n, nil
	}
	if err != nil {
		c.session.end()
	}
	return 0, err
}

// Write implements net.Conn.
func (c *sessionConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.session.end()
	}
	return n, err
}

// Close implements net.Conn.
func (c *sessionConn) Close() error {
	c.session.end()
	return c.Conn.Close()
}

// Close ends the session and its streams.
func (s *session) Close() error {
	s.end()
	return s.Session.Close()
}

// IsClosed reports whether the session has ended.
func (s *session) IsClosed() bool { return s.ended.Load() || s.Session.IsClosed() }

// end ends the reads and writes of all streams.
func (s *session) end() {
	s.once.Do(func() {
		s.ended.Store(true)
		s.mu.Lock()
		streams := slices.Collect(maps.Keys(s.streams))
		s.mu.Unlock()
		for _, stream := range streams {
			stream.expire()
		}
	})
}

// accept waits for a stream that the peer opens.
func (s *session) accept() (*muxStream, error) { return s.keep(s.AcceptStream()) }

// open opens a stream to the peer.
func (s *session) open() (*muxStream, error) { return s.keep(s.OpenStream()) }

// keep adds a new stream to the session.
func (s *session) keep(stream *yamux.Stream, err error) (*muxStream, error) {
	if err != nil {
		return nil, err
	}
	m := &muxStream{Stream: stream, session: s}
	s.mu.Lock()
	s.streams[m] = struct{}{}
	s.mu.Unlock()
	m.afterEnd()
	return m, nil
}

// muxStream is a stream of a session. Closing it ends its pending reads. The reads of a yamux stream
// would continue until the peer also closes it, and Nomad's servers do that only after they have
// answered.
type muxStream struct {
	*yamux.Stream
	session *session
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// Read implements net.Conn. After the end of the session it returns the data that has arrived,
// then io.EOF.
func (m *muxStream) Read(p []byte) (int, error) {
	n, err := m.Stream.Read(p)
	if err == yamux.ErrTimeout && m.session.ended.Load() {
		err = io.EOF
	}
	return n, err
}

// Write implements net.Conn.
func (m *muxStream) Write(p []byte) (int, error) {
	n, err := m.Stream.Write(p)
	if err == yamux.ErrTimeout && m.session.ended.Load() {
		err = yamux.ErrStreamClosed
	}
	return n, err
}

// SetDeadline implements net.Conn.
func (m *muxStream) SetDeadline(t time.Time) error {
	err := m.Stream.SetDeadline(t)
	m.afterEnd()
	return err
}

// SetReadDeadline implements net.Conn.
func (m *muxStream) SetReadDeadline(t time.Time) error {
	err := m.Stream.SetReadDeadline(t)
	m.afterEnd()
	return err
}

// SetWriteDeadline implements net.Conn.
func (m *muxStream) SetWriteDeadline(t time.Time) error {
	err := m.Stream.SetWriteDeadline(t)
	m.afterEnd()
	return err
}

// afterEnd keeps a deadline that was set concurrently with the end of the session from
// replacing the past one.
func (m *muxStream) afterEnd() {
	if m.session.ended.Load() {
		m.expire()
	}
}

func (m *muxStream) expire() {
	m.Stream.SetDeadline(past) //nolint:errcheck // a yamux stream accepts any deadline
}

// Close implements net.Conn.
func (m *muxStream) Close() error {
	m.Stream.SetReadDeadline(past) //nolint:errcheck // a yamux stream accepts any deadline
	m.session.mu.Lock()
	delete(m.session.streams, m)
	m.session.mu.Unlock()
	return m.Stream.Close()
}
