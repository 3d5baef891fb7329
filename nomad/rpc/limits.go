package rpc

import (
	"context"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// The memory budgets of a server. A request uses memory twice: as bytes while it is read, and
// decoded until its call ends. Both are charged. Unauthenticated callers have smaller budgets.
const (
	readingAll             = 512 << 20 // bytes being read, connections with an authenticated caller
	readingUnauthenticated = 64 << 20  // the same, other connections
	decodedAll             = 512 << 20 // decoded requests of authorized callers
	decodedEach            = 256 << 20
	unauthorizedAll        = 32 << 20 // decoded requests of other callers
	unauthorizedEach       = 4 << 20
	freeCost               = 64 << 10 // decoded requests up to this size are not charged
	streamedRequest        = 256 << 10
)

// Limits for the streams of a connection, and smaller ones until a caller is authenticated.
const (
	maxStreams                  = 1 << 14 // open streams
	maxStreamsUnauthenticated   = 1 << 10
	maxPipelined                = 64 // concurrent calls of one stream
	maxPipelinedUnauthenticated = 4
	maxNewStreams               = 32      // streams without a first request, per unauthenticated session
	freeUnauthenticated         = 4 << 10 // bytes of a request that are not charged
)

// intake returns the limits for the next request of a connection. Servers, and peers with a
// certificate of the region, may use more than connections without an authenticated caller.
func (s *Server) intake(c *Conn) *wire.Intake {
	if c.unauthenticated() {
		return &wire.Intake{Limit: wire.MaxRequest, Budget: s.unauthenticatedReading, Free: freeUnauthenticated}
	}
	return &wire.Intake{Limit: wire.MaxRequest, Budget: s.reading, Free: wire.ReadStep}
}

// newStreams limits the streams of an unauthenticated session that have not sent a request yet.
// Further streams wait, since each stream sends its request in time or ends.
type newStreams chan struct{}

// add waits for a slot for a stream. The caller must call started after the first request and
// at the end of the stream.
func (n newStreams) add(c *Conn) (started func(), ok bool) {
	if !c.unauthenticated() {
		return func() {}, true
	}
	select {
	case n <- struct{}{}:
		return sync.OnceFunc(func() { <-n }), true
	case <-c.session.CloseChan():
		return nil, false
	}
}

// maxStreams returns how many streams a session may have.
func (c *Conn) maxStreams() int {
	if c.unauthenticated() {
		return maxStreamsUnauthenticated
	}
	return maxStreams
}

// maxPipelined returns how many calls of a new stream may run concurrently. Other agents make
// one at a time.
func (c *Conn) maxPipelined() int {
	if c.unauthenticated() {
		return maxPipelinedUnauthenticated
	}
	return maxPipelined
}

// endIdle closes a session without authenticated calls and without open streams.
func (s *Server) endIdle(ctx context.Context, c *Conn) {
	for c.unauthenticated() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * s.cfg.FrameTimeout):
		}
		if c.unauthenticated() && c.session.NumStreams() == 0 {
			s.log.Debug("rpc session ended: no call was authenticated", "addr", c.remote)
			c.session.Close()
			return
		}
	}
}
