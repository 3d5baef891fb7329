package rpc

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
)

// Conn is one connection that this agent accepted or dialed.
type Conn struct {
	remote      net.Addr
	established time.Time
	session     *yamux.Session // nil on a connection of one stream
	perStream   bool           // each stream begins with a byte of its own
	owner       *nodeConns     // nil on connections that were dialed
	peer        *certs.Peer    // nil without TLS
	unread      *unread        // nil on sessions whose other side was known at once
	known       atomic.Bool    // a call over it came from somebody who proved who it is
}

// accepted reports whether the other side opened the connection.
func (c *Conn) accepted() bool { return c != nil && c.owner != nil }

// authenticated notes who made a call over the connection.
func (c *Conn) authenticated(id *acls.AuthenticatedIdentity) {
	if c != nil && !c.known.Load() && proven(id) {
		c.known.Store(true)
	}
}

// strange reports whether nobody has proved yet who is on the other side.
func (c *Conn) strange() bool { return c.accepted() && c.peer == nil && !c.known.Load() }

// Peer returns what the other side proved by its certificate, nil without TLS.
func (c *Conn) Peer() *certs.Peer { return c.peer }

// RemoteAddr returns the address of the other side.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// RemoteIP returns the IP address of the other side, nil when it has none.
func (c *Conn) RemoteIP() net.IP {
	if a, ok := c.remote.(*net.TCPAddr); ok {
		return a.IP
	}
	return nil
}

// BindNode records that the connection belongs to a node, so that NodeCall and
// NodeStream reach the node over it until it ends. The first node stays.
func (c *Conn) BindNode(id string) {
	if c.owner != nil && c.session != nil {
		c.owner.bind(id, c)
	}
}

// UnbindNode forgets that the connection belongs to a node: it was another's.
func (c *Conn) UnbindNode() {
	if c.owner != nil {
		c.owner.drop(c)
	}
}

// accept waits for a stream that the other side opens.
func (c *Conn) accept() (net.Conn, error) {
	stream, err := c.session.AcceptStream()
	if err != nil {
		return nil, err
	}
	return c.counted(stream), nil
}

// counted returns a stream that counts what is read of it, while nobody has authenticated.
func (c *Conn) counted(stream *yamux.Stream) net.Conn {
	if c.unread != nil && c.strange() {
		return &countedStream{stream, c.unread}
	}
	return stream
}

// open begins a stream towards the other side.
func (c *Conn) open(kind byte) (net.Conn, error) {
	opened, err := c.session.OpenStream()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", nomad.ErrNoStream, err)
	}
	stream := closingStream{c.counted(opened)}
	if c.perStream {
		if _, err := stream.Write([]byte{kind}); err != nil {
			stream.Close()
			return nil, fmt.Errorf("%w: %w", nomad.ErrNoStream, err)
		}
	}
	return stream, nil
}

// closingStream ends its reads when it is closed. Those of a yamux stream go on until the other
// side closes it, too, and upstream's servers do that only after they have answered.
type closingStream struct{ net.Conn }

// Close implements net.Conn.
func (s closingStream) Close() error {
	s.SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // a yamux stream takes any
	return s.Conn.Close()
}

// nodeConns finds the connections of nodes, and nodes of this same process.
type nodeConns struct {
	mu    sync.RWMutex
	conns map[string][]*Conn // by node, oldest first
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

// gone returns the connections of the nodes that are gone.
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

// find returns the newest connection of a node, or the node's own server when it
// runs in this process.
func (n *nodeConns) find(id string) (*Conn, *Server, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if s := n.local[id]; s != nil {
		return nil, s, nil
	}
	all := n.conns[id]
	if len(all) == 0 {
		return nil, nil, nomad.ErrNoNodeConn
	}
	return all[len(all)-1], nil, nil
}

// AttachNode makes a node of this same process reachable: its own Server answers
// NodeCall and NodeStream. The returned function undoes it.
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

// CloseNodes closes the connections of the nodes that are gone, with every call and
// stream on them.
func (s *Server) CloseNodes(gone func(id string) bool) {
	for _, c := range s.nodes.gone(gone) {
		c.session.Close() // the connection ends either way
	}
}

// NodeConn says since when this server holds a connection of the node.
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

// NodeCall calls a method of a node over the connection that the node opened. It
// fails with nomad.ErrNoNodeConn when this server holds none. A reply has bounds, and is
// charged until the call that ctx is of was answered.
func (s *Server) NodeCall(ctx context.Context, node, method string, req Request, resp any) error {
	c, local, err := s.nodes.find(node)
	if err != nil {
		return err
	}
	if local != nil {
		return local.Call(ctx, method, req, resp)
	}
	stream, err := c.open(byteCalls)
	if err != nil {
		return err
	}
	defer stream.Close()
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	defer stop()
	broken, err := s.askNode(ctx, newCaller(stream), method, req, resp)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case broken:
		return maybeApplied(req, err)
	}
	return err
}

// NodeStream opens a streaming call to a node, as NodeCall does. The caller sends
// the request and closes the stream.
func (s *Server) NodeStream(ctx context.Context, node, method string) (*Stream, error) {
	c, local, err := s.nodes.find(node)
	if err != nil {
		return nil, err
	}
	if local != nil {
		return local.Stream(ctx, method)
	}
	conn, err := c.open(byteStream)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	stream, err := openStream(sessionStream{conn, c.session}, method)
	if err != nil {
		stop()
	}
	return stream, err
}
