package rpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// Stream is one streaming call after its handshake. Writers may run concurrently with readers
// and with each other.
type Stream struct {
	conn io.ReadWriteCloser
	in   *bufio.Reader
	buf  []byte

	once sync.Once
	mu   sync.Mutex // guards writes
}

// NewStream returns a stream over a connection.
func NewStream(conn io.ReadWriteCloser) *Stream {
	return &Stream{conn: conn, in: bufio.NewReader(conn)}
}

// Pipe returns the two ends of an in-process stream.
func Pipe() (*Stream, *Stream) {
	a, b := wire.Pipe()
	return NewStream(a), NewStream(b)
}

// Encode sends one msgpack value.
func (s *Stream) Encode(v any) error {
	b, err := codec.Encode(v)
	if err != nil {
		return err
	}
	_, err = s.Write(b)
	return err
}

// Decode receives one msgpack value.
func (s *Stream) Decode(v any) error { return s.DecodeWithin(v, wire.MaxRequest) }

// DecodeWithin receives one msgpack value of at most limit bytes.
func (s *Stream) DecodeWithin(v any, limit int) error {
	b, err := wire.ReadValue(s.in, s.buf, &wire.Intake{Limit: limit})
	s.buf = b
	if err != nil {
		return err
	}
	if err := codec.Decode(b, v); err != nil {
		return fmt.Errorf("%w: %w", wire.ErrBadValue, err)
	}
	return nil
}

// request reads the request of a streaming call through in, within the frame timeout.
func (s *Stream) request(m Method, in *wire.Intake, within time.Duration) (*body, error) {
	if d, ok := s.conn.(interface{ SetReadDeadline(time.Time) error }); ok {
		d.SetReadDeadline(time.Now().Add(within))
		defer d.SetReadDeadline(time.Time{})
	}
	raw, err := wire.ReadValue(s.in, nil, in)
	if err != nil {
		return nil, err
	}
	return received(m, &raw, in)
}

// refuseLarge refuses a request that is too large. It discards the rest of the request, because
// a caller that blocks on sending would not read the answer.
func (s *Stream) refuseLarge(m Method, within time.Duration) {
	err := apierror.Errorf(http.StatusRequestEntityTooLarge, "the request has more than %d bytes", streamedRequest)
	if m.sendError(s, err) != nil {
		return
	}
	if d, ok := s.conn.(interface{ SetReadDeadline(time.Time) error }); ok {
		d.SetReadDeadline(time.Now().Add(within))
	}
	io.CopyN(io.Discard, s.in, wire.MaxRequest) // any end is fine
}

// Read reads raw bytes.
func (s *Stream) Read(p []byte) (int, error) { return s.in.Read(p) }

// Write sends raw bytes.
func (s *Stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.Write(p)
}

// Close closes the stream in both directions. The peer reads io.EOF.
func (s *Stream) Close() error {
	var err error
	s.once.Do(func() { err = s.conn.Close() })
	return err
}

// UntilClosed returns a context that also ends when the peer closes the stream. It discards all
// further input, so use it only if the caller sends nothing after the request. The caller must
// call cancel.
func (s *Stream) UntilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		io.Copy(io.Discard, s.in) // a read error is an end as well
	}()
	return ctx, cancel
}

// CloseWhenDenied calls check at every interval. Once check returns apierror.ErrPermissionDenied, it ends
// the returned context and the stream, because a token can expire before its stream ends. The
// caller must call stop, which waits for the last check.
func (s *Stream) CloseWhenDenied(ctx context.Context, every time.Duration, check func(context.Context) error) (
	_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if errors.Is(check(ctx), apierror.ErrPermissionDenied) {
				cancel()
				s.Close()
				return
			}
		}
	}()
	return ctx, func() {
		cancel()
		<-ended
	}
}

// SendError sends the peer the error that ends the stream.
func (s *Stream) SendError(err error) error {
	return s.Encode(&message.StreamErrWrapper{Error: wireError(err)})
}

// sendError sends the caller the error of a method, in the format of the method.
func (m Method) sendError(s *Stream, err error) error {
	if m.failure == nil {
		return s.SendError(err)
	}
	return s.Encode(m.failure(wireError(err)))
}

func wireError(err error) *message.RpcError {
	wire := &message.RpcError{Message: err.Error()}
	var coded *apierror.Coded
	if errors.As(err, &coded) {
		code := int64(coded.Code)
		wire.Code = &code
	}
	return wire
}

// Bridge copies bytes in both directions until one side ends, then closes both. If the
// connection of b is lost, it returns an error and leaves a open. The caller must then report
// the error on a: otherwise the truncated stream looks complete.
func Bridge(a, b *Stream) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(b, a) // the end of a ends both
		b.Close()
	}()
	_, err := io.Copy(a, b)
	b.Close()
	if errors.Is(err, apierror.ErrLost) {
		return err // the copy in the other direction ends with a
	}
	a.Close()
	<-ended
	return nil
}

// sessionStream is a stream of a multiplexed session. It distinguishes a lost session from a
// stream that the peer closed.
type sessionStream struct {
	io.ReadWriteCloser
	session *wire.Session
}

// Read implements io.Reader.
func (s sessionStream) Read(p []byte) (int, error) {
	n, err := s.ReadWriteCloser.Read(p)
	if err == io.EOF && s.session.IsClosed() {
		err = apierror.ErrLost
	}
	return n, err
}

// openStream does the caller's part of the streaming handshake. If it fails, no request was
// sent, because the request follows the handshake.
func openStream(conn io.ReadWriteCloser, method string) (*Stream, error) {
	s := NewStream(conn)
	if err := s.Encode(&wire.StreamHeader{Method: method}); err != nil {
		s.Close()
		return nil, fmt.Errorf("%w: %w", apierror.ErrNoStream, wire.AsLost(err))
	}
	var ack wire.StreamAck
	if err := s.DecodeWithin(&ack, wire.MaxHeader); err != nil {
		s.Close()
		return nil, fmt.Errorf("%w: %w", apierror.ErrNoStream, wire.AsLost(err))
	}
	if ack.Error != "" {
		s.Close()
		return nil, apierror.FromText(ack.Error)
	}
	return s, nil
}
