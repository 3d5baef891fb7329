package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// DialRaft opens a Raft connection to the server of this region at addr.
func (p *Pool) DialRaft(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := p.dial(ctx, addr, p.cfg.Region, wire.KindRaft)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// regionOf returns the region of the server at an address.
func (p *Pool) regionOf(addr string) string {
	if p.cfg.RegionOf != nil {
		if region := p.cfg.RegionOf(addr); region != "" {
			return region
		}
	}
	return p.cfg.Region
}

// dial opens a connection and sends its first byte. With TLS the server must prove that it
// belongs to the region. If dial fails, no request was sent.
func (p *Pool) dial(ctx context.Context, addr, region string, kind wire.Kind) (*dialed, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.DialTimeout)
	defer cancel()
	conn, err := p.secure(ctx, addr, region)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", apierror.ErrUnsent, err)
	}
	if _, err := conn.Write([]byte{kind}); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%w: %w", apierror.ErrUnsent, err)
	}
	return &dialed{Conn: conn, addr: addr, region: region}, nil
}

// HandshakeError is the error of a failed TLS handshake between this agent and a server.
type HandshakeError struct {
	Addr, Region string
	Err          error
}

// Error implements error.
func (e *HandshakeError) Error() string {
	return fmt.Sprintf("TLS with the server of region %q at %s: %v", e.Region, e.Addr, e.Err)
}

// Unwrap returns the cause.
func (e *HandshakeError) Unwrap() error { return e.Err }

// secure connects and does the handshake. In upgrade mode, if the server closes the connection,
// as one without TLS does, secure connects again without TLS.
func (p *Pool) secure(ctx context.Context, addr, region string) (net.Conn, error) {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		raw.SetDeadline(end)
		defer raw.SetDeadline(time.Time{})
	}
	conn, err := p.handshake(ctx, raw, region)
	if err == nil {
		return conn, nil
	}
	raw.Close()
	if !p.cfg.TLS.Upgrading() || !hungUp(err) {
		return nil, &HandshakeError{Addr: addr, Region: region, Err: err}
	}
	p.log.Debug("server does not support TLS yet", "addr", addr)
	if raw, err = d.DialContext(ctx, "tcp", addr); err != nil {
		return nil, err
	}
	plain, err := p.cfg.TLS.DialPlain(raw, region)
	if err != nil {
		raw.Close()
		return nil, err
	}
	return plain, nil
}

// handshake wraps the connection in TLS, if this agent has TLS enabled.
func (p *Pool) handshake(ctx context.Context, raw net.Conn, region string) (net.Conn, error) {
	if p.cfg.TLS.RPC() {
		if _, err := raw.Write([]byte{wire.KindTLS}); err != nil {
			return nil, err
		}
	}
	conn, err := p.cfg.TLS.DialRPC(ctx, raw, region)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// hungUp reports whether the peer closed a connection without a reason.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// dialed is a connection to a server. With TLS 1.3 a server can reject a client's certificate
// after the client's part of the handshake is done. The alert then arrives in place of an
// answer. dialed keeps it.
type dialed struct {
	net.Conn
	addr, region string

	alert atomic.Pointer[error]
}

// Read implements net.Conn.
func (d *dialed) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	var op *net.OpError
	if err != nil && errors.As(err, &op) && op.Op == "remote error" && ofHandshake(op.Err) {
		d.alert.CompareAndSwap(nil, &err)
	}
	return n, err
}

// ofHandshake reports whether a TLS alert only occurs in a handshake. The alerts of crypto/tls
// have no exported type, so it checks for the word that all alerts about certificates contain.
func ofHandshake(alert error) bool { return strings.Contains(alert.Error(), "certificate") }

// refused replaces err with the alert if the server rejected the handshake. The server has then
// executed nothing.
func (d *dialed) refused(err error) error {
	if err == nil || errors.Is(err, apierror.ErrUnsent) {
		return err
	}
	if alert := d.alert.Load(); alert != nil {
		why := fmt.Errorf("the server rejected this agent: %w", *alert)
		return fmt.Errorf("%w: %w", apierror.ErrUnsent, &HandshakeError{Addr: d.addr, Region: d.region, Err: why})
	}
	return err
}
