package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
)

// errTwice refuses a second TLS byte inside TLS.
var errTwice = errors.New("TLS inside of TLS")

// greet reads the first byte of a new connection, after the TLS handshake if one is requested.
// All of it must end within the handshake timeout.
func (s *Server) greet(ctx context.Context, raw net.Conn) (kind byte, conn *certs.Conn, err error) {
	release, err := s.greeted(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer release()
	raw.SetDeadline(s.handshakeEnd())
	if kind, err = firstByte(raw); err != nil {
		return 0, nil, err
	}
	if kind != byteTLS {
		conn, err = s.cfg.TLS.AcceptPlain(raw)
	} else if conn, err = s.cfg.TLS.AcceptRPC(ctx, raw); err == nil {
		if kind, err = firstByte(conn); err == nil && kind == byteTLS {
			err = errTwice
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

func firstByte(conn net.Conn) (byte, error) {
	var first [1]byte
	_, err := io.ReadFull(conn, first[:])
	return first[0], err
}
