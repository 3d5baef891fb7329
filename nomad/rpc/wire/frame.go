package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// Kind is the first byte of a connection, and of each stream of a multiplexed session.
type Kind = byte

// The kinds of connections and streams.
const (
	KindCalls  Kind = 0x01
	KindRaft   Kind = 0x02
	KindMuxOld Kind = 0x03
	KindTLS    Kind = 0x04
	KindStream Kind = 0x05
	KindMux    Kind = 0x06
)

// ReadKind reads the first byte of a connection or stream.
func ReadKind(conn net.Conn) (Kind, error) {
	var first [1]byte
	_, err := io.ReadFull(conn, first[:])
	return first[0], err
}

// RequestHeader precedes the body of a request.
type RequestHeader struct {
	ServiceMethod string
	Seq           uint64
}

// ResponseHeader precedes the body of a reply.
type ResponseHeader struct {
	ServiceMethod string
	Seq           uint64
	Error         string
}

// StreamHeader begins a streaming call.
type StreamHeader struct{ Method string }

// StreamAck is the answer to a StreamHeader.
type StreamAck struct{ Error string }

// WritePair sends two values in one write.
func WritePair(w io.Writer, head, body any) error {
	b, err := pair(head, body)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// pair encodes two values in sequence.
func pair(head, body any) ([]byte, error) {
	h, err := codec.Encode(head)
	if err != nil {
		return nil, err
	}
	b, err := codec.Encode(body)
	if err != nil {
		return nil, err
	}
	return append(h, b...), nil
}

// ReadHeader reads one value into v, which must be empty. It uses buf and returns it, possibly
// grown.
func ReadHeader(r *bufio.Reader, buf []byte, v any) ([]byte, error) {
	b, err := ReadValue(r, buf, &Intake{Limit: MaxHeader})
	if err != nil {
		return b, err
	}
	if err := codec.Decode(b, v); err != nil {
		return b, fmt.Errorf("%w: %w", ErrBadValue, err)
	}
	return b, nil
}

// Caller makes calls over one stream, one after another.
type Caller struct {
	Conn io.ReadWriteCloser

	in  *bufio.Reader
	buf []byte
	seq uint64
}

// NewCaller returns a Caller over a stream.
func NewCaller(conn io.ReadWriteCloser) *Caller {
	return &Caller{Conn: conn, in: bufio.NewReader(conn)}
}

// Call makes one call and decodes the reply. broken reports that the stream can't be used again
// and that the server may have executed the call.
func (c *Caller) Call(method string, req, resp any) (broken bool, err error) {
	body, broken, err := c.Ask(method, req, &Intake{Limit: maxReply})
	if err != nil || resp == nil {
		return broken, err
	}
	return false, codec.Decode(body, resp)
}

// Ask makes one call and returns the reply, read through in. The reply is valid until the next
// call.
func (c *Caller) Ask(method string, req any, in *Intake) (reply []byte, broken bool, err error) {
	c.seq++
	b, err := pair(&RequestHeader{ServiceMethod: method, Seq: c.seq}, req)
	if err != nil {
		return nil, false, fmt.Errorf("encode the request of %s: %w", method, err)
	}
	if _, err := c.Conn.Write(b); err != nil {
		return nil, true, AsLost(err)
	}
	var head ResponseHeader
	if c.buf, err = ReadHeader(c.in, c.buf, &head); err != nil {
		return nil, true, AsLost(err)
	}
	body, err := ReadValue(c.in, c.buf, in)
	if c.buf = body; cap(c.buf) > ReadStep {
		c.buf = nil
	}
	switch {
	case err != nil:
		return nil, true, AsLost(err)
	case head.Seq != c.seq:
		return nil, true, fmt.Errorf("rpc error: reply %d to request %d", head.Seq, c.seq)
	case head.Error != "":
		return nil, false, apierror.FromText(head.Error)
	}
	return body, false, nil
}

// AsLost marks an error as a lost connection, unless the received data is invalid or exceeds the
// memory budget.
func AsLost(err error) error {
	if errors.Is(err, ErrBusy) {
		return err
	}
	if errors.Is(err, ErrBadValue) {
		return fmt.Errorf("rpc error: %w", err)
	}
	return fmt.Errorf("%w: %w", apierror.ErrLost, err)
}
