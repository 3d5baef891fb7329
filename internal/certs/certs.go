// Package certs holds the certificate with which an agent proves who it is, the
// authorities that it trusts, and the rules for the certificates of others
// (compat/wire.md section 3). It does the handshakes of RPC, Raft and HTTPS.
//
//	files ──Open, Reload──▶ material ──▶ each new handshake
//	                           └──Reload──▶ connections that are open: those that
//	                                        would be refused now are closed
//
// A certificate says the role and the region of its holder by a name:
//
//	server.<region>.nomad    client.<region>.nomad
//
// It is looked for among the DNS names, then as common name. Reload checks
// everything before it changes anything. Sessions are never resumed: each
// connection shows its certificate to the authorities of the day.
//
// The package starts no goroutine, and no error holds what a key file contains.
// A nil *Store is an agent without TLS.
package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ErrPeer is in every error about what the other side of a connection is.
var ErrPeer = errors.New("certificate")

// ErrNoTLS says that this agent does not speak TLS there.
var ErrNoTLS = errors.New("no TLS is configured")

// errPlain refuses a connection without TLS.
var errPlain = errors.New("TLS is required")

// Config is the tls block of an agent, with what the rules need to know of it.
type Config struct {
	// Region is that of the agent, Server says that it is a server.
	Region string
	Server bool
	// CAFile, CertFile and KeyFile are PEM files.
	CAFile, CertFile, KeyFile string
	// RPC and HTTP say where TLS is spoken.
	RPC, HTTP bool
	// VerifyServerHostname asks for names: of servers that are called, and of
	// everybody who calls.
	VerifyServerHostname bool
	// UpgradeMode also takes RPC connections without TLS, and makes one to a server
	// that does not speak it yet.
	UpgradeMode bool
	// VerifyHTTPSClient asks for a certificate of those who use the HTTP API.
	VerifyHTTPSClient bool
	// CipherSuites are names with commas between; empty means the default ones.
	// They count for TLS 1.2; those of TLS 1.3 are not chosen.
	CipherSuites string
	// MinVersion is tls10, tls11, tls12 or tls13; empty means tls12.
	MinVersion string
}

// Store is what new handshakes use, and the connections that are open.
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

// Check says what Open would.
func Check(cfg Config) error {
	_, err := load(cfg)
	return err
}

// Reload reads the files again, with new settings. New handshakes use them, and
// connections that they would refuse are closed. With an error nothing changed.
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
			c.raw.Close() // its owner reads the end of it
		}
	}
	return nil
}

// material returns what is used now, that of an agent without TLS for a nil Store.
func (s *Store) material() *material {
	if s == nil {
		return &material{}
	}
	return s.current.Load()
}

// Expires returns when the own certificate does, the zero time without one.
func (s *Store) Expires() time.Time {
	if leaf := s.material().cert.Leaf; leaf != nil {
		return leaf.NotAfter
	}
	return time.Time{}
}

// CAExpires returns when the first certificate of the CA file does, the zero time without one.
func (s *Store) CAExpires() time.Time { return s.material().caEnds }

// HTTPS says whether the HTTP API speaks TLS.
func (s *Store) HTTPS() bool { return s.material().cfg.HTTP }

// Conn is a connection that Reload closes when it would be refused.
type Conn struct {
	net.Conn
	raw   net.Conn
	state *tls.ConnectionState // nil without TLS
	judge judge
	store *Store // nil when nobody keeps it
}

// Peer is what the other side proved, nil without TLS or without a certificate.
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

// Bounds of the last word.
const (
	hangUpWithin = time.Second
	hangUpBytes  = 64 << 10
)

// HangUp closes a connection whose handshake failed, so that the other side can read
// why: what it sent meanwhile is read, as else the reason would be taken from it.
func HangUp(raw net.Conn) {
	defer raw.Close()
	w, ok := raw.(interface{ CloseWrite() error })
	if !ok || w.CloseWrite() != nil {
		return
	}
	raw.SetReadDeadline(time.Now().Add(hangUpWithin))
	_, _ = io.CopyN(io.Discard, raw, hangUpBytes) // it is closed in any case
}

// judge says why settings refuse a connection; state is nil without TLS.
type judge func(m *material, state *tls.ConnectionState) error

// AcceptRPC does the handshake of an RPC connection that another agent opened.
func (s *Store) AcceptRPC(ctx context.Context, raw net.Conn) (*Conn, error) {
	m := s.material()
	if !m.cfg.RPC {
		return nil, ErrNoTLS
	}
	return s.secure(ctx, m, raw, tls.Server(raw, m.incoming()), judgeIncoming)
}

// AcceptPlain takes an RPC connection without TLS, or says why not.
func (s *Store) AcceptPlain(raw net.Conn) (*Conn, error) {
	return s.plain(s.material(), raw, judgeIncoming)
}

// DialRPC does the handshake with a server of a region, or nothing in an agent
// without TLS.
func (s *Store) DialRPC(ctx context.Context, raw net.Conn, region string) (*Conn, error) {
	m := s.material()
	if !m.cfg.RPC {
		return s.plain(m, raw, judgeOutgoing(region))
	}
	return s.secure(ctx, m, raw, tls.Client(raw, m.outgoing(region)), judgeOutgoing(region))
}

// DialPlain takes a connection to a server that does not speak TLS yet: only in
// upgrade mode.
func (s *Store) DialPlain(raw net.Conn, region string) (*Conn, error) {
	return s.plain(s.material(), raw, judgeOutgoing(region))
}

// RPC says whether RPC speaks TLS.
func (s *Store) RPC() bool { return s.material().cfg.RPC }

// Upgrading says whether RPC connections may do without TLS.
func (s *Store) Upgrading() bool { return s.material().cfg.RPC && s.material().cfg.UpgradeMode }

// AcceptHTTP does the handshake of a connection to the HTTP API, or nothing when
// that does not speak TLS.
func (s *Store) AcceptHTTP(ctx context.Context, raw net.Conn) (*Conn, error) {
	m := s.material()
	if !m.cfg.HTTP {
		return s.plain(m, raw, judgeHTTP)
	}
	return s.secure(ctx, m, raw, tls.Server(raw, m.web()), judgeHTTP)
}

func (s *Store) secure(ctx context.Context, m *material, raw net.Conn, conn *tls.Conn, judge judge) (*Conn, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := conn.ConnectionState()
	return s.keep(m, &Conn{Conn: conn, raw: raw, state: &state, judge: judge})
}

func (s *Store) plain(m *material, raw net.Conn, judge judge) (*Conn, error) {
	if err := judge(m, nil); err != nil {
		return nil, err
	}
	return s.keep(m, &Conn{Conn: raw, raw: raw, judge: judge})
}

// keep notes a connection for Reload. One that happened meanwhile counts.
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
