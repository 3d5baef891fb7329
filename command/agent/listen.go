package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tooMany is what a connection over the limit gets before it is closed.
const tooMany = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nConnection: close\r\n" +
	"Content-Length: 47\r\n\r\nYour IP is issuing too many concurrent requests"

// listen opens a TCP listener; what is wrong is told in one line.
func listen(what, host string, port int) (net.Listener, error) {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	ln, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s address %s is already in use: another agent may be running", what, addr)
	case err != nil:
		return nil, fmt.Errorf("listen on %s address %s: %w", what, addr, err)
	}
	return ln, nil
}

// limitedListener closes connections of an address that has too many.
type limitedListener struct {
	net.Listener
	max    int
	secure func() bool // whether TLS is spoken: then no reason can be told

	mu    sync.Mutex
	count map[netip.Addr]int
}

// limitConns bounds the connections of each address; 0 is no bound.
func limitConns(ln net.Listener, max int, secure func() bool) net.Listener {
	if max <= 0 {
		return ln
	}
	return &limitedListener{Listener: ln, max: max, secure: secure, count: map[netip.Addr]int{}}
}

// Accept returns the next connection within the limit.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr, ok := remoteIP(conn)
		if !ok {
			return conn, nil
		}
		if l.take(addr) {
			return &countedConn{Conn: conn, done: sync.OnceFunc(func() { l.give(addr) })}, nil
		}
		if l.secure() {
			conn.Close()
			continue
		}
		go refuse(conn)
	}
}

// refuse says why and closes. It never holds the listener up.
func refuse(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(time.Second))
	// The connection is closed whether or not the reason arrives.
	_, _ = conn.Write([]byte(tooMany))
	conn.Close()
}

func (l *limitedListener) take(addr netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[addr] >= l.max {
		return false
	}
	l.count[addr]++
	return true
}

func (l *limitedListener) give(addr netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[addr]--; l.count[addr] <= 0 {
		delete(l.count, addr)
	}
}

// countedConn gives its place back when it is closed.
type countedConn struct {
	net.Conn
	done func()
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
	defer c.done()
	return c.Conn.Close()
}

func remoteIP(conn net.Conn) (netip.Addr, bool) {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	addr, ok := netip.AddrFromSlice(tcp.IP)
	return addr.Unmap(), ok
}

// hosts returns the addresses to listen on: the list if there is one, else the
// address that everything binds to.
func hosts(list, bind string) []string {
	if all := strings.Fields(list); len(all) > 0 {
		return all
	}
	return []string{bind}
}
