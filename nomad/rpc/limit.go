package rpc

import (
	"errors"
	"net"
	"sync"
)

// addrLimit counts the connections of each address.
type addrLimit struct {
	max int

	mu   sync.Mutex
	used map[string]int
}

func newAddrLimit(max int) *addrLimit { return &addrLimit{max: max, used: map[string]int{}} }

// take counts one more connection of addr. used is how many there are now; release
// must be called once when the connection ended.
func (l *addrLimit) take(addr net.Addr) (release func(), used int, ok bool) {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil || l.max < 0 {
		return func() {}, 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used[host] >= l.max {
		return nil, l.used[host], false
	}
	l.used[host]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.used[host]--; l.used[host] == 0 {
			delete(l.used, host)
		}
	}, l.used[host], true
}

// leaves says whether used connections leave reserve of them free.
func (l *addrLimit) leaves(used, reserve int) bool { return l.max < 0 || used <= l.max-reserve }

// countedConn counts until it is closed: the connections of Raft, too, are those of an
// address.
type countedConn struct {
	net.Conn
	once    sync.Once
	release func()
}

// CloseWrite ends one direction.
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
