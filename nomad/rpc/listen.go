package rpc

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// Limits for accepted connections.
const (
	acceptBackoffMin = 5 * time.Millisecond
	acceptBackoffMax = time.Second
	acceptLogEvery   = 10 * time.Second
	streamReserve    = 20 // connections per address that streaming calls must leave free
)

// Serve answers connections of ln until ctx ends. It then closes them and waits for the running
// calls.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	var backoff time.Duration
	var logged time.Time
	for {
		conn, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if conn != nil {
				conn.Close()
			}
			return ctx.Err()
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			backoff = min(max(2*backoff, acceptBackoffMin), acceptBackoffMax)
			if time.Since(logged) >= acceptLogEvery {
				s.log.Warn("accept rpc connection", "err", err)
				logged = time.Now()
			}
			select {
			case <-ctx.Done():
			case <-time.After(backoff):
			}
			continue
		}
		backoff = 0
		wg.Go(func() { s.serveConn(ctx, conn) })
	}
}

// serveConn identifies the protocol of a new connection and serves it.
func (s *Server) serveConn(ctx context.Context, raw net.Conn) {
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	release, used, ok := s.limit.take(raw.RemoteAddr())
	if !ok {
		s.log.Warn("too many rpc connections from one address", "addr", raw.RemoteAddr())
		raw.Close()
		return
	}
	if s.cfg.Observer != nil {
		s.cfg.Observer.Accepted()
	}
	conn := &countedConn{Conn: raw, release: release}
	kind, known, err := s.identify(ctx, conn)
	if err != nil {
		if !isEOF(err) {
			s.log.Warn("refused an rpc connection", "addr", conn.RemoteAddr(), "err", err)
		}
		certs.HangUp(conn)
		return
	}
	if kind == wire.KindStream && !s.limit.leaves(used, streamReserve) {
		s.log.Warn("too many streaming connections from one address", "addr", conn.RemoteAddr())
		known.Close()
		return
	}
	c := &Conn{remote: conn.RemoteAddr(), established: time.Now(), owner: s.nodes, peer: known.Peer()}
	s.serveKind(ctx, c, known, kind)
}

// serveKind serves a connection of a known protocol.
func (s *Server) serveKind(ctx context.Context, c *Conn, conn net.Conn, kind wire.Kind) {
	switch kind {
	case wire.KindRaft:
		err := s.cfg.TLS.IsRaft(c.peer)
		if err == nil && s.cfg.Raft != nil {
			if s.cfg.Observer != nil {
				s.cfg.Observer.HandedOff()
			}
			s.cfg.Raft.HandOff(conn)
			return
		}
		s.log.Warn("refused a raft connection", "addr", c.remote, "err", err)
	case wire.KindCalls:
		s.serveCalls(ctx, c, conn, func() {})
	case wire.KindStream:
		s.serveStream(ctx, c, conn, func() {})
	case wire.KindMux, wire.KindMuxOld:
		c.perStream = kind == wire.KindMux
		s.serveMux(ctx, c, conn)
	default:
		s.log.Warn("rpc connection begins with an unknown byte", "byte", kind, "addr", c.remote)
	}
	conn.Close()
}

// serveMux runs a yamux session over conn and serves its streams. The peer opened conn.
func (s *Server) serveMux(ctx context.Context, c *Conn, conn net.Conn) {
	if c.unauthenticated() {
		c.unread = wire.NewUnread(s.unauthenticatedReading, func() bool { return !c.unauthenticated() })
		defer func() {
			if err := c.unread.End(); err != nil {
				s.log.Warn("closed an unauthenticated rpc session", "addr", c.remote, "err", err)
			}
		}()
		conn = c.unread.Conn(conn)
	}
	session, err := s.cfg.Mux.Server(conn, s.log)
	if err != nil {
		s.log.Error("start session", "err", err)
		return
	}
	defer session.Close()
	c.session = session
	defer s.nodes.drop(c)
	s.serveSession(ctx, c)
}

// serveSession answers the streams that the peer opens, until the session ends.
func (s *Server) serveSession(ctx context.Context, c *Conn) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots, fresh := make(chan struct{}, maxStreams), make(newStreams, maxNewStreams)
	if c.unauthenticated() {
		wg.Go(func() { s.endIdle(ctx, c) })
	}
	for {
		stream, err := c.accept()
		if err != nil {
			return
		}
		started, ok := fresh.add(c)
		if !ok {
			return
		}
		if len(slots) >= c.maxStreams() {
			s.log.Warn("too many streams on one connection", "addr", c.remote)
			started()
			stream.Close()
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			defer started()
			defer stream.Close()
			if !c.perStream {
				s.serveCalls(ctx, c, stream, started)
				return
			}
			stream.SetReadDeadline(s.handshakeEnd())
			kind, err := wire.ReadKind(stream)
			if err != nil {
				return
			}
			stream.SetReadDeadline(time.Time{})
			switch kind {
			case wire.KindCalls:
				s.serveCalls(ctx, c, stream, started)
			case wire.KindStream:
				s.serveStream(ctx, c, stream, started)
			default:
				s.log.Warn("rpc stream begins with an unknown byte", "byte", kind, "addr", c.remote)
				c.session.Close()
			}
		})
	}
}

// request is one call from a stream.
type request struct {
	head wire.RequestHeader
	raw  *[]byte // from bodies, until it is decoded
	in   *wire.Intake
}

// serveCalls answers the calls of one stream. Each call has its own goroutine, so replies may
// be in a different order than requests. It calls started when a request has arrived.
func (s *Server) serveCalls(ctx context.Context, c *Conn, conn net.Conn, started func()) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timed := wire.NewTimedConn(conn, s.cfg.FrameTimeout)
	if c.unauthenticated() {
		timed.Begin() // the first request must arrive now
	}
	in := bufio.NewReader(timed)
	var mu sync.Mutex // guards writes
	slots := make(chan struct{}, c.maxPipelined())
	reply := func(r request) {
		defer func() { <-slots }()
		defer r.in.Release()
		ctx, held := charging(ctx)
		defer held.release()
		head, out := s.answer(ctx, c, &r)
		mu.Lock()
		defer mu.Unlock()
		if err := wire.WritePair(conn, head, out); err != nil {
			s.log.Debug("write rpc reply", "method", r.head.ServiceMethod, "err", err)
			conn.Close()
		}
	}
	for header := make([]byte, 0, usualHeader); ; {
		err := timed.Next(in)
		r := request{raw: bodies.Get().(*[]byte), in: s.intake(c)}
		if err == nil {
			header, err = wire.ReadHeader(in, header, &r.head)
		}
		if err == nil {
			*r.raw, err = wire.ReadValue(in, *r.raw, r.in)
		}
		if err != nil {
			r.in.Release()
			s.ended(c, err)
			return
		}
		timed.Done()
		started()
		select {
		case slots <- struct{}{}:
			wg.Go(func() { reply(r) })
		case <-ctx.Done():
			r.in.Release()
			return
		}
	}
}

// answer runs one call that came over a connection.
func (s *Server) answer(ctx context.Context, c *Conn, r *request) (*wire.ResponseHeader, any) {
	reply := &wire.ResponseHeader{ServiceMethod: r.head.ServiceMethod, Seq: r.head.Seq}
	m, ok := s.methods[r.head.ServiceMethod]
	if !ok || m.Stream {
		reply.Error = s.unknownMethod(r.head.ServiceMethod).Error()
		return reply, struct{}{}
	}
	b, err := received(m, r.raw, r.in)
	var out any
	if err == nil {
		out, err = (&call{s: s, m: m, body: b}).run(ctx, c)
	}
	if err != nil {
		reply.Error = apierror.Text(err)
		return reply, struct{}{}
	}
	return reply, out
}

// serveStream does the callee's part of the streaming handshake and runs the method.
func (s *Server) serveStream(ctx context.Context, c *Conn, conn net.Conn, started func()) {
	stream := NewStream(conn)
	defer stream.Close()
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	defer stop()
	conn.SetReadDeadline(s.handshakeEnd())
	var head wire.StreamHeader
	if err := stream.DecodeWithin(&head, wire.MaxHeader); err != nil {
		s.ended(c, err)
		return
	}
	conn.SetReadDeadline(time.Time{})
	started()
	m, ok := s.methods[head.Method]
	var ack wire.StreamAck
	if !ok || !m.Stream {
		ack.Error = apierror.ErrUnknownMethod.Error() + `: "` + head.Method + `"`
	}
	if err := stream.Encode(&ack); err != nil || ack.Error != "" {
		return
	}
	s.runStream(ctx, m, c, stream)
}

// ended logs why a stream ended, except after a normal end.
func (s *Server) ended(c *Conn, err error) {
	switch {
	case errors.Is(err, wire.ErrBusy):
		s.log.Warn("refused a large rpc request: too many are being read", "addr", c.remote)
	case !isEOF(err):
		s.log.Debug("rpc stream ended", "addr", c.remote, "err", err)
	}
}

// isEOF reports whether err is a normal end of a connection.
func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, yamux.ErrSessionShutdown) || errors.Is(err, yamux.ErrStreamClosed) || errors.Is(err, yamux.ErrConnectionReset)
}
