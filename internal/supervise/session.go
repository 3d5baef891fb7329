package supervise

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// session is one connection to the supervisor. Its goroutine reads answers until the connection
// ends.
type session struct {
	conn  *os.File
	apart bool          // the supervisor accepts separate parts of a request; set before others use it
	done  chan struct{} // closed when the connection has ended
	// outdated marks a supervisor of another build, unguarded one without a secret. Both are set
	// before others use the session.
	outdated, unguarded bool

	send sync.Mutex // one frame at a time

	mu      sync.Mutex
	seq     uint64
	pending map[uint64]chan *response
}

func newSession(conn *os.File) *session {
	s := &session{conn: conn, done: make(chan struct{}), pending: map[uint64]chan *response{}}
	go s.read()
	return s
}

func (s *session) read() {
	defer close(s.done)
	defer s.conn.Close()
	for in := bufio.NewReaderSize(s.conn, readAhead); ; {
		resp := new(response)
		if err := readFrame(in, resp); err != nil {
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
func (s *session) call(ctx context.Context, req *request) (*response, error) {
	ch := make(chan *response, 1)
	s.mu.Lock()
	s.seq++
	own := *req // the caller may repeat the request
	own.Seq = s.seq
	s.pending[own.Seq] = ch
	s.mu.Unlock()
	s.send.Lock()
	err := writeRequest(s.conn, &own, s.apart)
	s.send.Unlock()
	if err != nil {
		s.conn.Close()
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	select {
	case resp := <-ch:
		return resp, resp.failure()
	case <-s.done:
	case <-ctx.Done():
		s.mu.Lock()
		delete(s.pending, own.Seq)
		s.mu.Unlock()
		return nil, ctx.Err()
	}
	select { // the answer may have been the last frame
	case resp := <-ch:
		return resp, resp.failure()
	default:
		return nil, ErrLost
	}
}

func (r *response) failure() error {
	switch {
	case r.Err == "":
		return nil
	case r.Kind == kindStart:
		return &proc.StartError{Reason: r.Err}
	case r.Kind == kindUnknown:
		return proc.ErrUnknownTask
	case r.Kind == kindRunning:
		return proc.ErrRunning
	case r.Kind == kindRefused:
		return errRefused
	}
	return errors.New(r.Err)
}
