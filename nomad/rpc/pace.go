package rpc

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Bounds of what has not authenticated, and of the time that a request may take to arrive.
const (
	frameRate        = 256 << 10 // bytes a second that a large request must reach
	maxGreeting      = 256       // handshakes at a time
	maxSilent        = 32        // streams of a session, not authenticated, without a first request
	maxStrangeStream = 1 << 10   // all streams of such a session
	strangePipelined = 4         // calls of one such stream that run at a time
	strangeFree      = 4 << 10   // bytes of a request that such a connection is not charged for
)

var errGreeting = errors.New("too many handshakes at a time")

// paced is a connection on which a request must arrive within a time. Between two requests
// it waits without end.
type paced struct {
	net.Conn
	timeout time.Duration
	begun   time.Time // of the request that is being read, else zero
	got     int
	set     bool // there is a deadline
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	if !p.begun.IsZero() {
		p.until(p.begun.Add(p.timeout + time.Duration(p.got)*time.Second/frameRate))
	}
	n, err := p.Conn.Read(b)
	p.got += n
	return n, err
}

func (p *paced) until(t time.Time) {
	p.Conn.SetReadDeadline(t)
	p.set = true
}

// next waits for the first byte of a request. From then on its time runs.
func (p *paced) next(in *bufio.Reader) error {
	_, err := in.Peek(1)
	if p.begun.IsZero() {
		p.begun = time.Now()
	}
	return err
}

// done ends the time of a request, which was read.
func (p *paced) done() {
	if p.begun, p.got = (time.Time{}), 0; p.set {
		p.Conn.SetReadDeadline(time.Time{})
		p.set = false
	}
}

// greeted takes one of the places for handshakes, and waits for one as long as a handshake may
// take.
func (s *Server) greeted(ctx context.Context) (release func(), err error) {
	release = func() { <-s.greeting }
	select {
	case s.greeting <- struct{}{}:
		return release, nil
	default:
	}
	var late <-chan time.Time
	if s.cfg.HandshakeTimeout > 0 {
		late = time.After(s.cfg.HandshakeTimeout)
	}
	select {
	case s.greeting <- struct{}{}:
		return release, nil
	case <-late:
		return nil, errGreeting
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// silence bounds the streams of a session that have not sent a request yet, until somebody
// has authenticated over it. More streams wait: each sends its request in time or ends.
type silence struct{ slots chan struct{} }

func newSilence() silence { return silence{make(chan struct{}, maxSilent)} }

// begin waits for a place for a stream. The caller calls spoken when the first request is
// there and when the stream ended.
func (q silence) begin(c *Conn) (spoken func(), ok bool) {
	if !c.strange() {
		return func() {}, true
	}
	select {
	case q.slots <- struct{}{}:
		return sync.OnceFunc(func() { <-q.slots }), true
	case <-c.session.CloseChan():
		return nil, false
	}
}

// maxStreams is how many streams a session may have.
func (c *Conn) maxStreams() int {
	if c.strange() {
		return maxStrangeStream
	}
	return maxStreams
}

// maxPipelined is how many calls of a stream that begins now may run at a time. Other agents
// make one.
func (c *Conn) maxPipelined() int {
	if c.strange() {
		return strangePipelined
	}
	return maxPipelined
}

// endIdle closes a session on which nobody authenticates and no stream is open.
func (s *Server) endIdle(ctx context.Context, c *Conn) {
	for c.strange() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * s.cfg.FrameTimeout):
		}
		if c.strange() && c.session.NumStreams() == 0 {
			s.log.Debug("rpc session ended: no call was authenticated", "addr", c.remote)
			c.session.Close()
			return
		}
	}
}
