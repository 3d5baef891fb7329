package wire

import (
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

// Session is a yamux session that ends without busy loops, however many streams are waiting.
//
// When a session of yamux v0.1.2 ends, it closes three things in this order: a channel that wakes
// all waiting streams, the connection, and the streams. A stream that is awake but not closed yet
// repeats its Read without a pause. So does a Write that waits for its send window. With a thousand
// such streams all cores are busy, and the goroutine that closes the streams gets no CPU time.
//
// Therefore Session first sets a past deadline on all streams. It does so before it closes the yamux
// session, and before yamux gets an error of the connection. If yamux ends the session itself, after a
// protocol error or a missed keepalive, the deadlines are set when yamux closes the connection.
type Session struct {
	*yamux.Session
	once  sync.Once
	ended atomic.Bool // the deadlines of all streams have passed, or are being set

	mu      sync.Mutex
	streams map[*MuxStream]struct{} // the open ones
}

// Server starts a session over a connection that the peer opened.
func (m Mux) Server(conn net.Conn, log *slog.Logger) (*Session, error) {
	return newSession(conn, m.config(log), yamux.Server)
}

// Client starts a session over a connection that this agent opened.
func (m Mux) Client(conn net.Conn, log *slog.Logger) (*Session, error) {
	return newSession(conn, m.config(log), yamux.Client)
}

// side is yamux.Server or yamux.Client.
type side func(io.ReadWriteCloser, *yamux.Config) (*yamux.Session, error)

func newSession(conn net.Conn, cfg *yamux.Config, start side) (*Session, error) {
	s := &Session{streams: map[*MuxStream]struct{}{}}
	var err error
	if s.Session, err = start(&sessionConn{Conn: conn, session: s}, cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// sessionConn is the connection of a session. It ends the streams before yamux ends the session.
type sessionConn struct {
	net.Conn
	session *Session
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
func (s *Session) Close() error {
	s.end()
	return s.Session.Close()
}

// IsClosed reports whether the session has ended.
func (s *Session) IsClosed() bool { return s.ended.Load() || s.Session.IsClosed() }

// end ends the reads and writes of all streams.
func (s *Session) end() {
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

// AcceptStream waits for a stream that the peer opens.
func (s *Session) AcceptStream() (*MuxStream, error) { return s.keep(s.Session.AcceptStream()) }

// OpenStream opens a stream to the peer.
func (s *Session) OpenStream() (*MuxStream, error) { return s.keep(s.Session.OpenStream()) }

// keep adds a new stream to the session.
func (s *Session) keep(stream *yamux.Stream, err error) (*MuxStream, error) {
	if err != nil {
		return nil, err
	}
	m := &MuxStream{Stream: stream, session: s}
	s.mu.Lock()
	s.streams[m] = struct{}{}
	s.mu.Unlock()
	m.afterEnd()
	return m, nil
}

// MuxStream is a stream of a session. Closing it ends its pending reads. The reads of a yamux stream
// would continue until the peer also closes it, and Nomad's servers do that only after they have
// answered.
type MuxStream struct {
	*yamux.Stream
	session *Session
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// Read implements net.Conn. After the end of the session it returns the data that has arrived,
// then io.EOF.
func (m *MuxStream) Read(p []byte) (int, error) {
	n, err := m.Stream.Read(p)
	if err == yamux.ErrTimeout && m.session.ended.Load() {
		err = io.EOF
	}
	return n, err
}

// Write implements net.Conn.
func (m *MuxStream) Write(p []byte) (int, error) {
	n, err := m.Stream.Write(p)
	if err == yamux.ErrTimeout && m.session.ended.Load() {
		err = yamux.ErrStreamClosed
	}
	return n, err
}

// SetDeadline implements net.Conn.
func (m *MuxStream) SetDeadline(t time.Time) error {
	err := m.Stream.SetDeadline(t)
	m.afterEnd()
	return err
}

// SetReadDeadline implements net.Conn.
func (m *MuxStream) SetReadDeadline(t time.Time) error {
	err := m.Stream.SetReadDeadline(t)
	m.afterEnd()
	return err
}

// SetWriteDeadline implements net.Conn.
func (m *MuxStream) SetWriteDeadline(t time.Time) error {
	err := m.Stream.SetWriteDeadline(t)
	m.afterEnd()
	return err
}

// afterEnd keeps a deadline that was set concurrently with the end of the session from
// replacing the past one.
func (m *MuxStream) afterEnd() {
	if m.session.ended.Load() {
		m.expire()
	}
}

func (m *MuxStream) expire() {
	m.Stream.SetDeadline(past) //nolint:errcheck // a yamux stream accepts any deadline
}

// Close implements net.Conn.
func (m *MuxStream) Close() error {
	m.Stream.SetReadDeadline(past) //nolint:errcheck // a yamux stream accepts any deadline
	m.session.mu.Lock()
	delete(m.session.streams, m)
	m.session.mu.Unlock()
	return m.Stream.Close()
}
