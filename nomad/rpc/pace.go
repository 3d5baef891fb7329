package rpc

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Limits for unauthenticated connections, and for the time in which a request must arrive.
const (
	frameRate        = 256 << 10 // minimum bytes per second of a large request
	maxGreeting      = 256       // concurrent handshakes
	maxSilent        = 32        // streams without a first request, per unauthenticated session
	maxStrangeStream = 1 << 10   // all streams of such a session
	strangePipelined = 4         // concurrent calls of one such stream
	strangeFree      = 4 << 10   // bytes of a request on such a connection that are not charged
)

var errGreeting = errors.New("too many handshakes at a time")

// paced is a connection on which a request must arrive within a timeout. Between two requests
// it waits without a timeout.
type paced struct {
	net.Conn
	timeout time.Duration
	begun   time.Time // start of the request that is being read, or zero
	got     int
	set     bool // a deadline is set
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

// next waits for the first byte of a request and then starts the timeout.
func (p *paced) next(in *bufio.Reader) error {
	_, err := in.Peek(1)
	if p.begun.IsZero() {
		p.begun = time.Now()
	}
	return err
}

// done ends the timeout after a request was read.
func (p *paced) done() {
	if p.begun, p.got = (time.Time{}), 0; p.set {
		p.Conn.SetReadDeadline(time.Time{})
		p.set = false
	}
}

// greeted takes a handshake slot. It waits for one up to the handshake timeout.
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

// silence limits the streams of an unauthenticated session that have not sent a request yet.
// Further streams wait, since each stream sends its request in time or ends.
type silence struct{ slots chan struct{} }

func newSilence() silence { return silence{make(chan struct{}, maxSilent)} }

// begin waits for a slot for a stream. The caller must call spoken after the first request and
// at the end of the stream.
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

// maxStreams returns how many streams a session may have.
func (c *Conn) maxStreams() int {
	if c.strange() {
		return maxStrangeStream
	}
	return maxStreams
}

// maxPipelined returns how many calls of a new stream may run concurrently. Other agents make
// one at a time.
func (c *Conn) maxPipelined() int {
	if c.strange() {
		return strangePipelined
	}
	return maxPipelined
}

// endIdle closes a session without authenticated calls and without open streams.
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
