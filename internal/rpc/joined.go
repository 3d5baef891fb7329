package rpc

import (
	"encoding/binary"
	"net"
)

// Parts of a frame's header as sessions write it: version, type, flags, stream, length.
const (
	frameHeader = 12
	frameType   = 1
	frameLength = 8
	frameData   = 0
	// joinedMost bounds what is copied to be written with its header.
	joinedMost = 64 << 10
)

// joinedConn writes the header of a frame together with what follows it. Sessions
// write them one after the other: twice the system calls, twice the records under TLS,
// and the other side is woken for a header alone. A session writes from one goroutine,
// and always a body after the header of data.
type joinedConn struct {
	net.Conn
	held []byte // a header whose body is about to be written
}

// Write implements io.Writer.
func (c *joinedConn) Write(p []byte) (int, error) {
	if len(c.held) == 0 {
		if len(p) != frameHeader || p[frameType] != frameData || binary.BigEndian.Uint32(p[frameLength:]) == 0 {
			return c.Conn.Write(p)
		}
		c.held = append(c.held, p...)
		return len(p), nil
	}
	before := len(c.held)
	if len(p) > joinedMost {
		n, err := c.Conn.Write(c.held)
		if c.held = c.held[:0]; err != nil || n < before {
			return 0, err
		}
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	n, err := c.Conn.Write(c.held)
	c.held = c.held[:0]
	return max(0, n-before), err
}
