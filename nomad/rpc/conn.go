package rpc

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// Conn is one connection that this agent accepted or dialed.
type Conn struct {
	remote      net.Addr
	established time.Time
	session     *wire.Session // nil on a single-stream connection
	perStream   bool          // each stream begins with its own type byte
	owner       *nodeConns    // nil on connections that were dialed
	peer        *certs.Peer   // nil without TLS
	unread      *wire.Unread  // nil on sessions whose peer was authenticated at once
	known       atomic.Bool   // an authenticated caller has made a call over it
}

// accepted reports whether the other side opened the connection.
func (c *Conn) accepted() bool { return c != nil && c.owner != nil }

// authenticated records the caller of a call over the connection.
func (c *Conn) authenticated(id *rbac.AuthenticatedIdentity) {
	if c != nil && !c.known.Load() && proven(id) {
		c.known.Store(true)
	}
}

// unauthenticated reports whether no peer or caller has been authenticated on the connection.
func (c *Conn) unauthenticated() bool { return c.accepted() && c.peer == nil && !c.known.Load() }

// Peer returns the identity from the peer's certificate, or nil without TLS.
func (c *Conn) Peer() *certs.Peer { return c.peer }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// RemoteIP returns the peer's IP address, or nil if it has none.
func (c *Conn) RemoteIP() net.IP {
	if a, ok := c.remote.(*net.TCPAddr); ok {
		return a.IP
	}
	return nil
}

// BindNode binds the connection to a node. NodeCall and NodeStream then reach the node over it
// until it ends. A connection keeps its first node.
func (c *Conn) BindNode(id string) {
	if c.owner != nil && c.session != nil {
		c.owner.bind(id, c)
	}
}

// UnbindNode removes the binding, because the connection belonged to another node.
func (c *Conn) UnbindNode() {
	if c.owner != nil {
		c.owner.drop(c)
	}
}

// accept waits for a stream that the peer opens.
func (c *Conn) accept() (net.Conn, error) {
	stream, err := c.session.AcceptStream()
	if err != nil {
		return nil, err
	}
	return c.counted(stream), nil
}

// counted wraps a stream to count the bytes read from it until a caller is authenticated.
func (c *Conn) counted(stream *wire.MuxStream) net.Conn {
	if c.unread != nil && c.unauthenticated() {
		return c.unread.Stream(stream)
	}
	return stream
}

// open opens a stream to the peer.
func (c *Conn) open(kind wire.Kind) (net.Conn, error) {
	opened, err := c.session.OpenStream()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", apierror.ErrNoStream, err)
	}
	stream := c.counted(opened)
	if c.perStream {
		if _, err := stream.Write([]byte{kind}); err != nil {
			stream.Close()
			return nil, fmt.Errorf("%w: %w", apierror.ErrNoStream, err)
		}
	}
	return stream, nil
}

// nodeConns maps node IDs to connections, and to the nodes in this process.
type nodeConns struct {
	mu    sync.RWMutex
	conns map[string][]*Conn // node ID to connections, oldest first
	nodes map[*Conn]string
	local map[string]*Server
}

func newNodeConns() *nodeConns {
	return &nodeConns{conns: map[string][]*Conn{}, nodes: map[*Conn]string{}, local: map[string]*Server{}}
}

func (n *nodeConns) bind(id string, c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, bound := n.nodes[c]; bound {
		return
	}
	n.nodes[c] = id
	n.conns[id] = append(n.conns[id], c)
}

func (n *nodeConns) drop(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, bound := n.nodes[c]
	if !bound {
		return
	}
	delete(n.nodes, c)
	var left []*Conn
	for _, other := range n.conns[id] {
		if other != c {
			left = append(left, other)
		}
	}
	if n.conns[id] = left; len(left) == 0 {
		delete(n.conns, id)
	}
}

// gone returns the connections of the nodes whose ID the function is accepts.
func (n *nodeConns) gone(is func(id string) bool) []*Conn {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var out []*Conn
	for id, conns := range n.conns {
		if is(id) {
			out = append(out, conns...)
		}
	}
	return out
}

// find returns the newest connection of a node, or the node's Server if it runs in this
// process.
func (n *nodeConns) find(id string) (*Conn, *Server, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if s := n.local[id]; s != nil {
		return nil, s, nil
	}
	all := n.conns[id]
	if len(all) == 0 {
		return nil, nil, apierror.ErrNoNodeConn
	}
	return all[len(all)-1], nil, nil
}

// AttachNode makes a node in this process reachable: NodeCall and NodeStream use its Server.
// The returned function removes it.
func (s *Server) AttachNode(id string, node *Server) (detach func()) {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	s.nodes.local[id] = node
	return func() {
		s.nodes.mu.Lock()
		defer s.nodes.mu.Unlock()
		delete(s.nodes.local, id)
	}
}

// CloseNodes closes the connections of the nodes for which gone returns true, with all their
// calls and streams.
func (s *Server) CloseNodes(gone func(id string) bool) {
	for _, c := range s.nodes.gone(gone) {
		c.session.Close() // the connection ends in any case
	}
}

// NodeConn returns the start time of the newest connection to the node, if one exists.
func (s *Server) NodeConn(id string) (since time.Time, ok bool) {
	c, local, err := s.nodes.find(id)
	switch {
	case err != nil:
		return time.Time{}, false
	case local != nil:
		return s.started, true
	}
	return c.established, true
}

// NodeCall calls a method of a node over the connection that the node opened. Without such a
// connection it returns apierror.ErrNoNodeConn. The size of a reply is limited. It is charged to a
// budget until the call that ctx belongs to has been answered.
func (s *Server) NodeCall(ctx context.Context, node, method string, req Request, resp any) error {
	c, local, err := s.nodes.find(node)
	if err != nil {
		return err
	}
	if local != nil {
		return local.Call(ctx, method, req, resp)
	}
	stream, err := c.open(wire.KindCalls)
	if err != nil {
		return err
	}
	defer stream.Close()
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	defer stop()
	broken, err := s.askNode(ctx, wire.NewCaller(stream), exchange{method, req, resp})
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case broken:
		return maybeApplied(req, err)
	}
	return absent(err, "agent of node "+node)
}

// NodeStream opens a streaming call to a node, like NodeCall. The caller sends the request and
// closes the stream.
func (s *Server) NodeStream(ctx context.Context, node, method string) (*Stream, error) {
	c, local, err := s.nodes.find(node)
	if err != nil {
		return nil, err
	}
	if local != nil {
		return local.Stream(ctx, method)
	}
	conn, err := c.open(wire.KindStream)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	stream, err := openStream(sessionStream{conn, c.session}, method)
	if err != nil {
		stop()
		err = absent(err, "agent of node "+node)
	}
	return stream, err
}
