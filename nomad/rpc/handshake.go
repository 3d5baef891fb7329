package rpc

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// maxHandshakes is how many handshakes may run at a time.
const maxHandshakes = 256

var (
	errNestedTLS  = errors.New("TLS inside of TLS")
	errHandshakes = errors.New("too many handshakes at a time")
)

// identify reads the first byte of a new connection, after the TLS handshake if one is requested.
// All of it must end within the handshake timeout.
func (s *Server) identify(ctx context.Context, raw net.Conn) (kind wire.Kind, conn *certs.Conn, err error) {
	release, err := s.handshakeSlot(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer release()
	raw.SetDeadline(s.handshakeEnd())
	if kind, err = wire.ReadKind(raw); err != nil {
		return 0, nil, err
	}
	if kind != wire.KindTLS {
		conn, err = s.cfg.TLS.AcceptPlain(raw)
	} else if conn, err = s.cfg.TLS.AcceptRPC(ctx, raw); err == nil {
		if kind, err = wire.ReadKind(conn); err == nil && kind == wire.KindTLS {
			err = errNestedTLS
		}
	}
	if err != nil {
		if conn != nil {
			conn.Close()
		}
		return 0, nil, err
	}
	raw.SetDeadline(time.Time{})
	return kind, conn, nil
}

// handshakeEnd returns the deadline of a handshake that begins now.
func (s *Server) handshakeEnd() time.Time {
	if s.cfg.HandshakeTimeout < 0 {
		return time.Time{}
	}
	return time.Now().Add(s.cfg.HandshakeTimeout)
}

// handshakeSlot takes a handshake slot. It waits for one up to the handshake timeout.
func (s *Server) handshakeSlot(ctx context.Context) (release func(), err error) {
	release = func() { <-s.handshakes }
	select {
	case s.handshakes <- struct{}{}:
		return release, nil
	default:
	}
	var late <-chan time.Time
	if s.cfg.HandshakeTimeout > 0 {
		late = time.After(s.cfg.HandshakeTimeout)
	}
	select {
	case s.handshakes <- struct{}{}:
		return release, nil
	case <-late:
		return nil, errHandshakes
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
