package wire

import (
	"bufio"
	"net"
	"time"
)

// frameRate is the minimum rate of a large request, in bytes per second.
const frameRate = 256 << 10

// TimedConn is a connection on which a request must arrive within a timeout. Between two requests
// it waits without a timeout.
type TimedConn struct {
	net.Conn
	timeout time.Duration
	begun   time.Time // start of the request that is being read, or zero
	got     int
	set     bool // a deadline is set
}

// NewTimedConn returns a connection with the timeout for each request.
func NewTimedConn(conn net.Conn, timeout time.Duration) *TimedConn {
	return &TimedConn{Conn: conn, timeout: timeout}
}

// Read implements io.Reader.
func (c *TimedConn) Read(b []byte) (int, error) {
	if !c.begun.IsZero() {
		c.until(c.begun.Add(c.timeout + time.Duration(c.got)*time.Second/frameRate))
	}
	n, err := c.Conn.Read(b)
	c.got += n
	return n, err
}

// until sets the read deadline.
func (c *TimedConn) until(t time.Time) {
	c.Conn.SetReadDeadline(t)
	c.set = true
}

// Begin starts the timeout of the first request, before its first byte.
func (c *TimedConn) Begin() { c.begun = time.Now() }

// Next waits for the first byte of a request and then starts the timeout.
func (c *TimedConn) Next(in *bufio.Reader) error {
	_, err := in.Peek(1)
	if c.begun.IsZero() {
		c.begun = time.Now()
	}
	return err
}

// Done ends the timeout after a request was read.
func (c *TimedConn) Done() {
	if c.begun, c.got = (time.Time{}), 0; c.set {
		c.Conn.SetReadDeadline(time.Time{})
		c.set = false
	}
}
