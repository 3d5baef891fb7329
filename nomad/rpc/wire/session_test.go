package wire

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hashicorp/yamux"
)

// lastConn is a connection whose Close waits for the streams of its session. yamux calls it
// after it has woken the streams and before it closes them.
type lastConn struct {
	net.Conn
	streams <-chan struct{} // closed when all reads and writes have returned
	late    chan struct{}   // closed if they have not
	write   error
}

func (c *lastConn) Write(p []byte) (int, error) {
	if c.write != nil && len(p) == frameHeader && p[frameType] == 2 { // a ping
		return 0, c.write
	}
	return c.Conn.Write(p)
}

func (c *lastConn) Close() error {
	select {
	case <-c.streams:
	case <-time.After(10 * time.Second):
		close(c.late)
	}
	return c.Conn.Close()
}

// When a session ends, its streams end before yamux closes them. Otherwise each of them would
// use a core until then.
func TestSession_StreamsEndFirst(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(s *Session, peer net.Conn)
		write error
	}{
		"connection closed": {end: func(_ *Session, peer net.Conn) { peer.Close() }},
		"write fails":       {end: func(s *Session, _ net.Conn) { s.Ping() }, write: errors.New("broken")},
		"invalid frame":     {end: func(_ *Session, peer net.Conn) { peer.Write([]byte(strings.Repeat("x", frameHeader))) }},
		"session closed":    {end: func(s *Session, _ net.Conn) { s.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			ended := make(chan struct{})
			conn := &lastConn{Conn: far, streams: ended, late: make(chan struct{}), write: c.write}
			s, peer := sessionOver(t, conn, near)
			var waiting sync.WaitGroup
			for i := range 8 {
				if _, err := peer.OpenStream(); err != nil {
					t.Fatal(err)
				}
				stream, err := s.AcceptStream()
				if err != nil {
					t.Fatal(err)
				}
				if i%2 == 0 {
					waiting.Go(func() { endsWith(t, io.EOF, stream.Read) })
					continue
				}
				if _, err := stream.Write(make([]byte, streamWindow)); err != nil { // fills the window
					t.Fatal(err)
				}
				waiting.Go(func() { endsWith(t, yamux.ErrStreamClosed, stream.Write) })
			}
			go func() {
				waiting.Wait()
				close(ended)
			}()
			c.end(s, near)
			<-s.CloseChan()
			s.Close() // waits for the connection
			<-ended
			select {
			case <-conn.late:
				t.Error("streams were waiting when yamux closed the connection")
			default:
			}
		})
	}
}

// sessionOver starts the two ends of a session.
func sessionOver(t *testing.T, conn, peer net.Conn) (*Session, *yamux.Session) {
	t.Helper()
	cfg := yamux.DefaultConfig()
	cfg.LogOutput = io.Discard
	s, err := newSession(conn, cfg, yamux.Server)
	if err != nil {
		t.Fatal(err)
	}
	other, err := yamux.Client(peer, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		other.Close()
		s.Close()
	})
	return s, other
}

func endsWith(t *testing.T, want error, do func([]byte) (int, error)) {
	t.Helper()
	if _, err := do(make([]byte, 1)); err != want {
		t.Errorf("a waiting stream ended with %v, want %v", err, want)
	}
}

// A deadline that is set after the end of a session does not let a stream wait again.
func TestSession_DeadlinesAfterEnd(t *testing.T) {
	near, far := net.Pipe()
	s, peer := sessionOver(t, far, near)
	if _, err := peer.OpenStream(); err != nil {
		t.Fatal(err)
	}
	stream, err := s.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	s.end() // yamux has not closed the session yet
	for name, set := range map[string]func(time.Time) error{
		"read and write": stream.SetDeadline, "read": stream.SetReadDeadline,
	} {
		if err := set(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("Read() after setting the %s deadline = %v, want EOF", name, err)
		}
	}
}

// The streams of a session end after yamux has received all data of the connection.
func TestSession_ErrorAfterData(t *testing.T) {
	near, far := net.Pipe()
	near.Close()
	s := &Session{}
	conn := &sessionConn{Conn: readFrom{far, iotest.DataErrReader(strings.NewReader("data"))}, session: s}
	if n, err := conn.Read(make([]byte, 9)); n != 4 || err != nil || s.ended.Load() {
		t.Errorf("Read() = %d, %v, and the streams ended: %v", n, err, s.ended.Load())
	}
	if n, err := conn.Read(make([]byte, 9)); n != 0 || err != io.EOF || !s.ended.Load() {
		t.Errorf("Read() = %d, %v, and the streams ended: %v", n, err, s.ended.Load())
	}
}

// readFrom is a connection that reads from a reader.
type readFrom struct {
	net.Conn
	in io.Reader
}

func (r readFrom) Read(p []byte) (int, error) { return r.in.Read(p) }
