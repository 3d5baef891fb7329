package agent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/internal/connlimit"
)

// tooMany is the response to a connection over the limit before it is closed.
const tooMany = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nConnection: close\r\n" +
	"Content-Length: 47\r\n\r\nYour IP is issuing too many concurrent requests"

// listen opens a TCP listener. what names it in errors.
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

// full is the response to a connection for which the agent has no descriptor.
const full = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n" +
	"Content-Length: 35\r\n\r\nthe agent has too many open files\r\n"

// fullPatience bounds how long a connection that gets the response full delays the next one.
const fullPatience = 100 * time.Millisecond

// refuseFull answers and closes a connection for which the agent has no descriptor. A request that was not read would
// make the kernel drop the response.
func (a *Agent) refuseFull(conn net.Conn) {
	defer conn.Close()
	a.log.Debug("refused an HTTP connection", "err", syscall.EMFILE)
	if a.certs.HTTPS() {
		return
	}
	conn.SetDeadline(time.Now().Add(fullPatience))
	_, _ = io.WriteString(conn, full) // it is closed in any case
	_, _ = conn.Read(make([]byte, maxHeader))
}

// limitConns limits the connections of each address and of all addresses together. A refused
// connection is recorded. Without TLS it gets a response with the reason.
func (a *Agent) limitConns(ln net.Listener, limit *connlimit.Limit) net.Listener {
	return &connlimit.Listener{Listener: ln, Limit: limit, Key: remoteIP, Refuse: func(conn net.Conn) {
		a.api.RefusedConn(conn)
		metrics.IncrCounter(httpExceeded, 1)
		if a.certs.HTTPS() {
			conn.Close()
			return
		}
		go refuse(conn)
	}}
}

// refuse writes the reason and closes the connection. It does not block the listener.
func refuse(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(time.Second))
	// The connection is closed whether or not the reason arrives.
	_, _ = conn.Write([]byte(tooMany))
	conn.Close()
}

// remoteIP returns the IP address of a peer, or "" if it has none.
func remoteIP(conn net.Conn) string {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	addr, ok := netip.AddrFromSlice(tcp.IP)
	if !ok {
		return ""
	}
	return addr.Unmap().String()
}
