package consensus

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Limits of the transport.
const (
	streamPool    = 3
	streamTimeout = 10 * time.Second
)

// errUnlocated makes raft use the address in the log.
var errUnlocated = errors.New("server is not among the members")

// Streams manages the connections for Raft messages: those that the RPC listener hands over and
// those that it dials. It implements raft.StreamLayer and rpc.RaftConns. A connection to the
// server's own address stays in the process.
type Streams struct {
	addr   string
	dial   func(ctx context.Context, addr string) (net.Conn, error)
	accept chan net.Conn
	ended  chan struct{}

	mu    sync.Mutex
	conns map[net.Conn]bool // nil after Close
}

// NewStreams returns the Streams of the server at addr. dial must open a connection that the
// peer recognizes as a Raft connection.
func NewStreams(addr string, dial func(ctx context.Context, addr string) (net.Conn, error)) *Streams {
	return &Streams{addr: addr, dial: dial, accept: make(chan net.Conn), ended: make(chan struct{}), conns: map[net.Conn]bool{}}
}

// HandOff takes over a connection that another server opened.
func (s *Streams) HandOff(conn net.Conn) {
	held, ok := s.hold(conn)
	if !ok {
		conn.Close()
		return
	}
	select {
	case s.accept <- held:
	case <-s.ended:
		held.Close()
	}
}

// Accept returns the next connection that was handed over.
func (s *Streams) Accept() (net.Conn, error) {
	select {
	case conn := <-s.accept:
		return conn, nil
	case <-s.ended:
		return nil, net.ErrClosed
	}
}

// Dial opens a connection to another server.
func (s *Streams) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if string(to) == s.addr {
		near, far := net.Pipe()
		go s.HandOff(far)
		return near, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.dial(ctx, string(to))
}

// Addr returns the address at which others reach this server.
func (s *Streams) Addr() net.Addr { return streamAddr(s.addr) }

// Close closes all connections that were handed over and refuses new ones.
func (s *Streams) Close() error {
	s.mu.Lock()
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	if conns == nil {
		return nil
	}
	close(s.ended)
	for conn := range conns {
		conn.Close()
	}
	return nil
}

// hold tracks a connection until it is closed.
func (s *Streams) hold(conn net.Conn) (net.Conn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return nil, false
	}
	s.conns[conn] = true
	return &reservedConn{Conn: conn, streams: s}, true
}

// reservedConn is no longer tracked after it is closed.
type reservedConn struct {
	net.Conn
	streams *Streams
}

// Close implements net.Conn.
func (c *reservedConn) Close() error {
	c.streams.mu.Lock()
	delete(c.streams.conns, c.Conn)
	c.streams.mu.Unlock()
	return c.Conn.Close()
}

// streamAddr is the address of a server.
type streamAddr string

// Network implements net.Addr.
func (streamAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a streamAddr) String() string { return string(a) }

// network returns the transport of a server that has peers. Followers receive the index of c.
func (s *Streams) network(id string, locate func(id string) string, c *commits, log *slog.Logger) raft.Transport {
	return transport{commits: c, NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: s, MaxPool: streamPool, Timeout: streamTimeout, MsgpackUseNewTimeFormat: true, Logger: transportLogger(log),
		ServerAddressProvider: addresses{self: id, addr: s.addr, locate: locate},
	})}
}

// addresses looks up servers by ID, because the log may contain an outdated address.
type addresses struct {
	self, addr string
	locate     func(id string) string
}

// ServerAddr implements raft.ServerAddressProvider.
func (a addresses) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if string(id) == a.self {
		return raft.ServerAddress(a.addr), nil
	}
	if a.locate != nil {
		if addr := a.locate(string(id)); addr != "" {
			return raft.ServerAddress(addr), nil
		}
	}
	return "", errUnlocated
}
