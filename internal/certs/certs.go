// Package certs holds an agent's certificate, the authorities that it trusts, and the rules for the
// certificates of peers. It does the TLS handshakes of RPC, Raft and HTTPS.
//
//	files ──Open, Reload──▶ material ──▶ each new handshake
//	                           └──Reload──▶ open connections: those that would be
//	                                        refused now are closed
//
// A certificate states the role and the region of its holder by a name:
//
//	server.<region>.nomad    client.<region>.nomad
//
// The name is a DNS name or, failing that, the common name. Reload checks all settings before it
// changes anything. Sessions are never resumed: the certificate is verified on each connection.
//
// The package starts no goroutine. No error contains key material. A nil *Store is an agent without
// TLS.
package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ErrPeer is wrapped in every error about the peer's certificate.
var ErrPeer = errors.New("certificate")

// ErrNoTLS means that the agent has no TLS for the listener or the call.
var ErrNoTLS = errors.New("no TLS is configured")

// errPlain refuses a connection without TLS.
var errPlain = errors.New("TLS is required")

// Config is the tls block of an agent and what its rules depend on.
type Config struct {
	// Region is the agent's region. Server reports whether the agent is a server.
	Region string
	Server bool
	// CAFile, CertFile and KeyFile are PEM files.
	CAFile, CertFile, KeyFile string
	// RPC and HTTP enable TLS.
	RPC, HTTP bool
	// VerifyServerHostname checks the names of called servers and of all callers.
	VerifyServerHostname bool
	// UpgradeMode also accepts RPC connections without TLS, and opens them to servers that have no
	// TLS yet.
	UpgradeMode bool
	// VerifyHTTPSClient requires a certificate from clients of the HTTP API.
	VerifyHTTPSClient bool
	// CipherSuites are comma-separated names for TLS 1.2; empty means the default. The suites of
	// TLS 1.3 cannot be configured.
	CipherSuites string
	// MinVersion is tls10, tls11, tls12 or tls13; empty means tls12.
	MinVersion string
}

// Store holds the material of new handshakes, and the open connections.
type Store struct {
	current atomic.Pointer[material]

	mu   sync.Mutex
	open map[*Conn]bool
}

// Open reads the files.
func Open(cfg Config) (*Store, error) {
	m, err := load(cfg)
	if err != nil {
		return nil, err
	}
	s := &Store{open: map[*Conn]bool{}}
	s.current.Store(m)
	return s, nil
}

// Check returns the error that Open would return.
func Check(cfg Config) error {
	_, err := load(cfg)
	return err
}

// Reload reads the files again, with new settings. New handshakes use them, and connections that
// they refuse are closed. On error nothing changes.
func (s *Store) Reload(cfg Config) error {
	m, err := load(cfg)
	if err != nil {
		return err
	}
	s.current.Store(m)
	s.mu.Lock()
	open := make([]*Conn, 0, len(s.open))
	for c := range s.open {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		if c.judge(m, c.state) != nil {
			c.raw.Close() // its owner gets the read error
		}
	}
	return nil
}

// material returns the current material; that of an agent without TLS for a nil Store.
func (s *Store) material() *material {
	if s == nil {
		return &material{}
	}
	return s.current.Load()
}

// Expires returns when the agent's certificate expires, or the zero time without one.
func (s *Store) Expires() time.Time {
	if leaf := s.material().cert.Leaf; leaf != nil {
		return leaf.NotAfter
	}
	return time.Time{}
}

// CAExpires returns when the first certificate of the CA file expires, or the zero time without
// one.
func (s *Store) CAExpires() time.Time { return s.material().caEnds }

// HTTPS reports whether the HTTP API uses TLS.
func (s *Store) HTTPS() bool { return s.material().cfg.HTTP }

// Conn is a connection that Reload closes if the new settings refuse it.
type Conn struct {
	net.Conn
	raw   net.Conn
	state *tls.ConnectionState // nil without TLS
	judge judge
	store *Store // nil if the connection is not tracked
}

// Peer returns the verified peer, or nil without TLS or without a certificate.
func (c *Conn) Peer() *Peer {
	if c.state == nil || len(c.state.PeerCertificates) == 0 {
		return nil
	}
	return newPeer(c.state)
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	if c.store != nil {
		c.store.mu.Lock()
		delete(c.store.open, c)
		c.store.mu.Unlock()
	}
	return c.Conn.Close()
}

// Bounds of HangUp.
const (
	hangUpWithin = time.Second
	hangUpBytes  = 64 << 10
)

// HangUp closes a connection whose handshake failed, so that the peer can read the alert. It first
// drains the connection: unread data would make the kernel send a reset.
func HangUp(raw net.Conn) {
	defer raw.Close()
	w, ok := raw.(interface{ CloseWrite() error })
	if !ok || w.CloseWrite() != nil {
		return
	}
	raw.SetReadDeadline(time.Now().Add(hangUpWithin))
	_, _ = io.CopyN(io.Discard, raw, hangUpBytes) // the connection is closed in any case
}

// judge returns the reason to refuse a connection; state is nil without TLS.
type judge func(m *material, state *tls.ConnectionState) error

// AcceptRPC does the handshake of an incoming RPC connection.
func (s *Store) AcceptRPC(ctx context.Context, raw net.Conn) (*Conn, error) {
	m := s.material()
	if !m.cfg.RPC {
		return nil, ErrNoTLS
	}
	return s.secure(ctx, m, tls.Server(raw, m.incoming()), judgeIncoming)
}

// AcceptPlain accepts an RPC connection without TLS, or returns the reason of the refusal.
func (s *Store) AcceptPlain(raw net.Conn) (*Conn, error) {
	return s.plain(s.material(), raw, judgeIncoming)
}

// DialRPC does the handshake with a server of a region. Without TLS it does nothing.
func (s *Store) DialRPC(ctx context.Context, raw net.Conn, region string) (*Conn, error) {
	m := s.material()
	if !m.cfg.RPC {
		return s.plain(m, raw, judgeOutgoing(region))
	}
	return s.secure(ctx, m, tls.Client(raw, m.outgoing(region)), judgeOutgoing(region))
}

// DialNode does the TLS handshake with the HTTP API of a client of a region. The name of the
// certificate is always checked.
func (s *Store) DialNode(ctx context.Context, raw net.Conn, region string) (*Conn, error) {
	m := s.material()
	if m.roots == nil {
		return nil, ErrNoTLS
	}
	return s.secure(ctx, m, tls.Client(raw, m.node(region)), func(now *material, state *tls.ConnectionState) error {
		return now.chain(state, x509.ExtKeyUsageServerAuth, clientName(region))
	})
}

// DialPlain accepts a connection to a server without TLS, in upgrade mode only.
func (s *Store) DialPlain(raw net.Conn, region string) (*Conn, error) {
	return s.plain(s.material(), raw, judgeOutgoing(region))
}

// RPC reports whether RPC uses TLS.
func (s *Store) RPC() bool { return s.material().cfg.RPC }

// Upgrading reports whether RPC connections without TLS are allowed.
func (s *Store) Upgrading() bool { return s.material().cfg.RPC && s.material().cfg.UpgradeMode }

// AcceptHTTP does the handshake of a connection to the HTTP API. Without TLS it does nothing.
func (s *Store) AcceptHTTP(ctx context.Context, raw net.Conn) (*Conn, error) {
	m := s.material()
	if !m.cfg.HTTP {
		return s.plain(m, raw, judgeHTTP)
	}
	return s.secure(ctx, m, tls.Server(raw, m.web()), judgeHTTP)
}

func (s *Store) secure(ctx context.Context, m *material, conn *tls.Conn, judge judge) (*Conn, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := conn.ConnectionState()
	return s.keep(m, &Conn{Conn: conn, raw: conn.NetConn(), state: &state, judge: judge})
}

func (s *Store) plain(m *material, raw net.Conn, judge judge) (*Conn, error) {
	if err := judge(m, nil); err != nil {
		return nil, err
	}
	return s.keep(m, &Conn{Conn: raw, raw: raw, judge: judge})
}

// keep tracks a connection for Reload. A reload during the handshake applies to it, too.
func (s *Store) keep(m *material, c *Conn) (*Conn, error) {
	if s == nil {
		return c, nil
	}
	c.store = s
	s.mu.Lock()
	s.open[c] = true
	s.mu.Unlock()
	if now := s.material(); now != m {
		if err := c.judge(now, c.state); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}
