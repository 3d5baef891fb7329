package supervise

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// errRefused means that the first request of a connection did not present the secret.
var errRefused = errors.New("the connection did not present the supervisor's secret: " +
	"the agent has a version without secrets, or another state directory")

// Limits of connections that have not presented the secret.
const (
	maxHello      = 4 << 10 // bytes of the first request
	maxStrangers  = 32
	helloPatience = 10 * time.Second
	warnEvery     = time.Minute // refused connections are logged at most once per interval
)

// strangers are the connections that have not presented the secret yet. If there are more than
// maxStrangers, the oldest is closed, so that silent connections cannot block others.
type strangers struct {
	mu     sync.Mutex
	conns  []*os.File // oldest first
	warned time.Time
}

func (s *strangers) add(conn *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, conn)
	if len(s.conns) > maxStrangers {
		s.conns[0].Close()
		s.conns = slices.Delete(s.conns, 0, 1)
	}
}

func (s *strangers) remove(conn *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = slices.DeleteFunc(s.conns, func(c *os.File) bool { return c == conn })
}

// shouldWarn reports whether a refused connection is logged now.
func (s *strangers) shouldWarn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.warned.IsZero() && time.Since(s.warned) < warnEvery {
		return false
	}
	s.warned = time.Now()
	return true
}

// acceptPause is the pause after an accept that failed for lack of descriptors or memory.
const acceptPause = 50 * time.Millisecond

// serve accepts clients until shutdown.
func (s *server) serve() error {
	for {
		conn, err := accept(s.listen)
		s.mu.Lock()
		closing := s.closing
		s.mu.Unlock()
		switch {
		case closing:
			return nil
		case isShortage(err):
			s.log.Warn("accept a client", "err", err)
			time.Sleep(acceptPause)
			continue
		case err != nil:
			return err
		}
		if err := checkPeer(conn); err != nil {
			s.log.Warn("refuse client", "err", err)
			conn.Close()
			continue
		}
		s.strangers.add(conn)
		go s.client(conn)
	}
}

// isShortage reports whether an accept may succeed later.
func isShortage(err error) bool {
	for _, e := range []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.ECONNABORTED, unix.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// client serves one connection.
func (s *server) client(conn *os.File) {
	c := &peer{server: s, conn: conn}
	in := bufio.NewReaderSize(conn, readAhead)
	hello, err := s.admit(c, in)
	s.strangers.remove(conn)
	if err != nil {
		conn.Close()
		return
	}
	if !s.join() {
		conn.Close() // the client waits for the end of this supervisor, and starts another
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer func() {
		cancel()
		conn.Close()
		c.requests.Wait()
		s.mu.Lock()
		s.clients--
		s.activity = time.Now()
		s.mu.Unlock()
		s.restLater()
	}()
	for next := hello; err == nil; next, err = readRequest(in) {
		req := next
		c.requests.Go(func() { c.handle(ctx, req) })
	}
}

// join counts a client, so that the supervisor does not end before the client disconnects. It returns false if the
// supervisor is about to end.
func (s *server) join() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.clients++
	return true
}

// admit reads the first request, which must be a hello with the secret. Nothing else from the
// connection is decoded before.
func (s *server) admit(c *peer, in io.Reader) (*request, error) {
	c.conn.SetReadDeadline(time.Now().Add(helloPatience)) //nolint:errcheck // a socket supports deadlines
	hello := new(request)
	if err := readFrameUpTo(in, hello, maxHello); err != nil {
		return nil, fmt.Errorf("read the first request: %w", err)
	}
	want, err := readSecret(s.dir)
	if err == nil && (hello.Op != opHello || hello.Apart || !want.equal(hello.Secret)) {
		err = errRefused
	}
	if err == nil {
		c.conn.SetReadDeadline(time.Time{}) //nolint:errcheck // as above
		return hello, nil
	}
	if s.strangers.shouldWarn() {
		s.log.Warn("refuse client", "err", err)
	}
	c.answer(&response{Seq: hello.Seq}, err)
	return nil, err
}
