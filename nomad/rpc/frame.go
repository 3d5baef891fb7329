package rpc

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// The first byte of a connection, and of each stream of a multiplexed session.
const (
	byteCalls    = 0x01
	byteRaft     = 0x02
	byteMuxOld   = 0x03
	byteTLS      = 0x04
	byteStream   = 0x05
	byteMux      = 0x06
	maxHeader    = 64 << 10
	maxPipelined = 64 // concurrent calls of one stream
)

// requestHeader and responseHeader precede each body.
type requestHeader struct {
	ServiceMethod string
	Seq           uint64
}

type responseHeader struct {
	ServiceMethod string
	Seq           uint64
	Error         string
}

// streamHeader and streamAck are the handshake of a streaming call.
type streamHeader struct{ Method string }

type streamAck struct{ Error string }

// writePair sends two values in one write.
func writePair(w io.Writer, head, body any) error {
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

// readHeader reads one value into v, which must be empty. It uses buf and returns it, possibly
// grown.
func readHeader(r *bufio.Reader, buf []byte, v any) ([]byte, error) {
	b, err := readValue(r, buf, &intake{limit: maxHeader})
	if err != nil {
		return b, err
	}
	if err := codec.Decode(b, v); err != nil {
		return b, fmt.Errorf("%w: %w", errBadValue, err)
	}
	return b, nil
}

// caller makes calls over one stream, one after another.
type caller struct {
	conn io.ReadWriteCloser
	in   *bufio.Reader
	buf  []byte
	seq  uint64
}

func newCaller(conn io.ReadWriteCloser) *caller {
	return &caller{conn: conn, in: bufio.NewReader(conn)}
}

// call makes one call and decodes the reply. broken reports that the stream can't be used again
// and that the server may have executed the call.
func (c *caller) call(method string, req, resp any) (broken bool, err error) {
	body, broken, err := c.ask(method, req, &intake{limit: maxReply})
	if err != nil || resp == nil {
		return broken, err
	}
	return false, codec.Decode(body, resp)
}

// ask makes one call and returns the reply, read through in. The reply is valid until the next
// call.
func (c *caller) ask(method string, req any, in *intake) (reply []byte, broken bool, err error) {
	c.seq++
	b, err := pair(&requestHeader{ServiceMethod: method, Seq: c.seq}, req)
	if err != nil {
		return nil, false, fmt.Errorf("encode the request of %s: %w", method, err)
	}
	if _, err := c.conn.Write(b); err != nil {
		return nil, true, lost(err)
	}
	var head responseHeader
	if c.buf, err = readHeader(c.in, c.buf, &head); err != nil {
		return nil, true, lost(err)
	}
	body, err := readValue(c.in, c.buf, in)
	if c.buf = body; cap(c.buf) > readStep {
		c.buf = nil
	}
	switch {
	case err != nil:
		return nil, true, lost(err)
	case head.Seq != c.seq:
		return nil, true, fmt.Errorf("rpc error: reply %d to request %d", head.Seq, c.seq)
	case head.Error != "":
		return nil, false, nomad.ErrorFromText(head.Error)
	}
	return body, false, nil
}

// lost marks an error as a lost connection, unless the received data is invalid or exceeds the
// memory budget.
func lost(err error) error {
	if errors.Is(err, errBusy) {
		return err
	}
	if errors.Is(err, errBadValue) {
		return fmt.Errorf("rpc error: %w", err)
	}
	return fmt.Errorf("%w: %w", nomad.ErrLost, err)
}

// openStream does the caller's part of the streaming handshake. If it fails, no request was
// sent, because the request follows the handshake.
func openStream(conn io.ReadWriteCloser, method string) (*Stream, error) {
	s := NewStream(conn)
	if err := s.Encode(&streamHeader{Method: method}); err != nil {
		s.Close()
		return nil, fmt.Errorf("%w: %w", nomad.ErrNoStream, lost(err))
	}
	var ack streamAck
	if err := s.DecodeWithin(&ack, maxHeader); err != nil {
		s.Close()
		return nil, fmt.Errorf("%w: %w", nomad.ErrNoStream, lost(err))
	}
	if ack.Error != "" {
		s.Close()
		return nil, nomad.ErrorFromText(ack.Error)
	}
	return s, nil
}
