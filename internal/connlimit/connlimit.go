// Package connlimit bounds the connections that listeners accept, so that no peer can use
// up the descriptors of the process.
//
// A Limit counts connections by key: the address of a peer, or the task that a socket belongs to.
// Two limits apply: connections of one key, and connections of all keys together. When the total is
// reached, a key with few connections still gets another one. The newest connection of the key with
// the most connections is then closed.
//
// A Reserve refuses connections while the process has no descriptor for them.
//
// There are no goroutines: Refuse, which answers and closes a refused connection, runs in
// Accept and must not block.
package connlimit

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// share is the part of the process's descriptors that one Limit may use: a quarter.
const share = 4

// Limit counts the connections of any number of listeners.
type Limit struct {
	each  int // per key; 0 is unlimited
	total int

	mu    sync.Mutex
	count int
	keys  map[string]map[*conn]struct{}
	next  uint64 // number of the next connection
}

// New returns a limit for each key, 0 for unlimited, and for all keys together.
func New(each, total int) *Limit {
	return &Limit{each: each, total: max(1, total), keys: map[string]map[*conn]struct{}{}}
}

// Share returns a limit whose total is a quarter of the descriptors that this process may
// open.
func Share(each int) (*Limit, error) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, fmt.Errorf("read the limit of open files: %w", err)
	}
	return New(each, int(min(files.Cur, 1<<20))/share), nil
}

// Listener accepts within a Limit.
type Listener struct {
	net.Listener
	Limit *Limit
	// Key names the peer of a connection; "" exempts it from the limit.
	Key func(net.Conn) string
	// Refuse answers and closes a connection over the limit.
	Refuse func(net.Conn)
}

// Accept returns the next connection within the limit.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		key := l.Key(raw)
		if key == "" {
			return raw, nil
		}
		c := &conn{Conn: raw, limit: l.Limit, key: key}
		evicted, ok := l.Limit.add(c)
		if evicted != nil {
			evicted.Conn.Close() // its reader or writer then fails and closes it
		}
		if ok {
			return c, nil
		}
		l.Refuse(raw)
	}
}

// Count returns the number of open connections that have a key.
func (l *Limit) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// add admits a connection, perhaps in place of another one, or reports false.
func (l *Limit) add(c *conn) (evicted *conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := len(l.keys[c.key])
	if l.each > 0 && own >= l.each {
		return nil, false
	}
	if l.count >= l.total {
		if evicted = l.newestOfMost(own + 1); evicted == nil {
			return nil, false
		}
		l.remove(evicted)
	}
	if l.keys[c.key] == nil {
		l.keys[c.key] = map[*conn]struct{}{}
	}
	l.next++
	c.number = l.next
	l.keys[c.key][c] = struct{}{}
	l.count++
	return evicted, true
}

// newestOfMost returns the newest connection of the key that has the most, nil if no key
// has more than the floor.
func (l *Limit) newestOfMost(floor int) *conn {
	var most map[*conn]struct{}
	for _, conns := range l.keys {
		if len(conns) > max(floor, len(most)) {
			most = conns
		}
	}
	var newest *conn
	for c := range most {
		if newest == nil || c.number > newest.number {
			newest = c
		}
	}
	return newest
}

// remove uncounts a connection that is still counted.
func (l *Limit) remove(c *conn) {
	if _, counted := l.keys[c.key][c]; !counted {
		return
	}
	l.count--
	if delete(l.keys[c.key], c); len(l.keys[c.key]) == 0 {
		delete(l.keys, c.key)
	}
}

// conn is a counted connection.
type conn struct {
	net.Conn
	limit  *Limit
	key    string
	number uint64
}

// Close implements net.Conn and makes room for another connection.
func (c *conn) Close() error {
	c.limit.mu.Lock()
	c.limit.remove(c)
	c.limit.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite ends one direction.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}
