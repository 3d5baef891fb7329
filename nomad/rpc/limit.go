package rpc

import (
	"errors"
	"net"
	"sync"

	"github.com/open-nomad/open-nomad/internal/slots"
)

// addrLimit counts the connections per address.
type addrLimit struct {
	max   int
	conns *slots.Set[string]
}

func newAddrLimit(max int) *addrLimit { return &addrLimit{max: max, conns: slots.New[string](max, 0)} }

// take counts one more connection of addr. used is the new count. The caller must call release
// once, after the connection ended.
func (l *addrLimit) take(addr net.Addr) (release func(), used int, ok bool) {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil || l.max < 0 {
		return func() {}, 0, true
	}
	if used = l.conns.Take(host); used == 0 {
		return nil, 0, false
	}
	return func() { l.conns.Release(host) }, used, true
}

// leaves reports whether at least reserve connections of an address remain when used are open.
func (l *addrLimit) leaves(used, reserve int) bool { return l.max < 0 || used <= l.max-reserve }

// countedConn is counted until it is closed. Raft connections are counted too.
type countedConn struct {
	net.Conn
	once    sync.Once
	release func()
}

// CloseWrite closes the connection for writing.
func (c *countedConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.once.Do(c.release)
	return c.Conn.Close()
}
