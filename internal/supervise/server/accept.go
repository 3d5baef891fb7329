package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/wire"
)

// Limits of connections that have not presented the secret.
const (
	maxUnauthenticated = 32
	helloTimeout       = 10 * time.Second
	warnEvery          = time.Minute // refused connections are logged at most once per interval
)

// unauthenticated are the connections that have not presented the secret yet. If there are more than
// maxUnauthenticated, the oldest is closed, so that silent connections cannot block others.
type unauthenticated struct {
	mu     sync.Mutex
	conns  []*os.File // oldest first
	warned time.Time
}

func (u *unauthenticated) add(conn *os.File) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conns = append(u.conns, conn)
	if len(u.conns) > maxUnauthenticated {
		u.conns[0].Close()
		u.conns = slices.Delete(u.conns, 0, 1)
	}
}

func (u *unauthenticated) remove(conn *os.File) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conns = slices.DeleteFunc(u.conns, func(c *os.File) bool { return c == conn })
}

// shouldWarn reports whether a refused connection is logged now.
func (u *unauthenticated) shouldWarn() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.warned.IsZero() && time.Since(u.warned) < warnEvery {
		return false
	}
	u.warned = time.Now()
	return true
}

// acceptPause is the pause after an accept that failed for lack of descriptors or memory.
const acceptPause = 50 * time.Millisecond

// serve accepts clients until shutdown.
func (s *server) serve() error {
	for {
		conn, err := wire.Accept(s.listen)
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
		if _, err := wire.CheckPeer(conn); err != nil {
			s.log.Warn("refuse client", "err", err)
			conn.Close()
			continue
		}
		s.unauthenticated.add(conn)
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
	in := wire.NewReader(conn)
	hello, err := s.admit(c, in)
	s.unauthenticated.remove(conn)
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
		s.stopLater()
	}()
	for next := hello; err == nil; next, err = wire.ReadRequest(in) {
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
func (s *server) admit(c *peer, in io.Reader) (*wire.Request, error) {
	c.conn.SetReadDeadline(time.Now().Add(helloTimeout)) //nolint:errcheck // a socket supports deadlines
	hello, err := wire.ReadHello(in)
	if err != nil {
		return nil, fmt.Errorf("read the first request: %w", err)
	}
	secret, err := wire.ReadSecret(s.dir)
	if err == nil && !secret.Admits(hello) {
		err = wire.ErrRefused
	}
	if err == nil {
		c.conn.SetReadDeadline(time.Time{}) //nolint:errcheck // as above
		return hello, nil
	}
	if s.unauthenticated.shouldWarn() {
		s.log.Warn("refuse client", "err", err)
	}
	c.answer(&wire.Response{Seq: hello.Seq}, err)
	return nil, err
}
