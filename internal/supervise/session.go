package supervise

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/open-nomad/open-nomad/internal/supervise/wire"
)

// session is one connection to the supervisor. Its goroutine reads answers until the connection
// ends.
type session struct {
	conn     *os.File
	separate bool          // the supervisor accepts separate parts of a request; set before others use it
	done     chan struct{} // closed when the connection has ended
	// outdated marks a supervisor of another build, unguarded one without a secret. Both are set
	// before others use the session.
	outdated, unguarded bool

	send sync.Mutex // one frame at a time

	mu      sync.Mutex
	seq     uint64
	pending map[uint64]chan *wire.Response
}

func newSession(conn *os.File) *session {
	s := &session{conn: conn, done: make(chan struct{}), pending: map[uint64]chan *wire.Response{}}
	go s.read()
	return s
}

func (s *session) read() {
	defer close(s.done)
	defer s.conn.Close()
	for in := wire.NewReader(s.conn); ; {
		resp, err := wire.ReadResponse(in)
		if err != nil {
			return
		}
		s.mu.Lock()
		ch := s.pending[resp.Seq]
		delete(s.pending, resp.Seq)
		s.mu.Unlock()
		if ch != nil {
			ch <- resp
		}
	}
}

func (s *session) lost() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *session) close() {
	s.conn.Close()
	<-s.done
}

// ended waits until the supervisor has ended: only then it closes the connection.
func (s *session) ended(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("wait until the supervisor has ended: %w", ctx.Err())
	case <-s.done:
		return nil
	}
}

// call sends a request and waits for its answer.
func (s *session) call(ctx context.Context, req *wire.Request) (*wire.Response, error) {
	ch := make(chan *wire.Response, 1)
	s.mu.Lock()
	s.seq++
	sent := *req // the caller may repeat the request
	sent.Seq = s.seq
	s.pending[sent.Seq] = ch
	s.mu.Unlock()
	s.send.Lock()
	err := wire.WriteRequest(s.conn, &sent, s.separate)
	s.send.Unlock()
	if err != nil {
		s.conn.Close()
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	select {
	case resp := <-ch:
		return resp, resp.Failure()
	case <-s.done:
	case <-ctx.Done():
		s.mu.Lock()
		delete(s.pending, sent.Seq)
		s.mu.Unlock()
		return nil, ctx.Err()
	}
	select { // the answer may have been the last frame
	case resp := <-ch:
		return resp, resp.Failure()
	default:
		return nil, ErrLost
	}
}
