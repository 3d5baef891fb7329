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

	"github.com/hashicorp/yamux"

	"github.com/open-nomad/open-nomad/nomad"
)

// Stream is one streaming call after its handshake. Encode and Write are safe
// beside Decode and Read, and beside each other.
type Stream struct {
	conn io.ReadWriteCloser
	in   *bufio.Reader
	buf  []byte

	once sync.Once
	mu   sync.Mutex // guards writes
}

// NewStream makes a stream of a connection.
func NewStream(conn io.ReadWriteCloser) *Stream {
	return &Stream{conn: conn, in: bufio.NewReader(conn)}
}

// Pipe returns the two ends of a stream inside one process.
func Pipe() (*Stream, *Stream) {
	a, b := pipe()
	return NewStream(a), NewStream(b)
}

// Encode sends one msgpack value.
func (s *Stream) Encode(v any) error {
	b, err := nomad.Encode(v)
	if err != nil {
		return err
	}
	_, err = s.Write(b)
	return err
}

// Decode receives one msgpack value.
func (s *Stream) Decode(v any) error { return s.DecodeWithin(v, maxRequest) }

// DecodeWithin receives one msgpack value of at most limit bytes.
func (s *Stream) DecodeWithin(v any, limit int) error {
	b, err := readValue(s.in, s.buf, &intake{limit: limit})
	s.buf = b
	if err != nil {
		return err
	}
	if err := nomad.Decode(b, v); err != nil {
		return fmt.Errorf("%w: %w", errBadValue, err)
	}
	return nil
}

// request receives the request of a streaming call by in, within the time that a frame may
// take.
func (s *Stream) request(m Method, in *intake, within time.Duration) (*body, error) {
	if d, ok := s.conn.(interface{ SetReadDeadline(time.Time) error }); ok {
		d.SetReadDeadline(time.Now().Add(within))
		defer d.SetReadDeadline(time.Time{})
	}
	raw, err := readValue(s.in, nil, in)
	if err != nil {
		return nil, err
	}
	return received(m, &raw, in)
}

// refuseLarge answers a request that is too large. It drops the rest of the request: a caller
// that cannot send it would not read the answer.
func (s *Stream) refuseLarge(m Method, within time.Duration) {
	err := nomad.Errorf(http.StatusRequestEntityTooLarge, "the request has more than %d bytes", streamedRequest)
	if m.sendError(s, err) != nil {
		return
	}
	if d, ok := s.conn.(interface{ SetReadDeadline(time.Time) error }); ok {
		d.SetReadDeadline(time.Now().Add(within))
	}
	io.CopyN(io.Discard, s.in, maxRequest) // any end will do
}

// Read reads raw bytes.
func (s *Stream) Read(p []byte) (int, error) { return s.in.Read(p) }

// Write sends raw bytes.
func (s *Stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.Write(p)
}

// Close ends the stream both ways. The other side reads io.EOF.
func (s *Stream) Close() error {
	var err error
	s.once.Do(func() { err = s.conn.Close() })
	return err
}

// UntilClosed returns a context that also ends when the other side closes the
// stream. It reads and drops what still comes, so it is for methods whose caller
// sends nothing after the request. The caller of UntilClosed calls cancel.
func (s *Stream) UntilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		io.Copy(io.Discard, s.in) // any end of the stream is the end
	}()
	return ctx, cancel
}

// While ends the context that it returns, and the stream, once check refuses it with
// nomad.ErrPermissionDenied; it asks again and again, since what opened a stream may not
// be good as long as it runs. The caller of While calls stop, which waits for the check.
func (s *Stream) While(ctx context.Context, every time.Duration, check func(context.Context) error) (_ context.Context, stop func()) {
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
			if errors.Is(check(ctx), nomad.ErrPermissionDenied) {
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

// SendError tells the other side why the stream ends.
func (s *Stream) SendError(err error) error {
	return s.Encode(&nomad.StreamErrWrapper{Error: wireError(err)})
}

// sendError tells the caller of a method why it failed, in the method's words.
func (m Method) sendError(s *Stream, err error) error {
	if m.failure == nil {
		return s.SendError(err)
	}
	return s.Encode(m.failure(wireError(err)))
}

func wireError(err error) *nomad.RpcError {
	wire := &nomad.RpcError{Message: err.Error()}
	var coded *nomad.CodedError
	if errors.As(err, &coded) {
		code := int64(coded.Code)
		wire.Code = &code
	}
	return wire
}

// Bridge copies bytes both ways until either side ends, then closes both. When the
// connection of b is lost it says so and leaves a open: the caller tells that side, for
// which what came so far would else look whole.
func Bridge(a, b *Stream) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(b, a) // the end of a ends both
		b.Close()
	}()
	_, err := io.Copy(a, b)
	b.Close()
	if errors.Is(err, nomad.ErrLost) {
		return err // the copy the other way ends with a
	}
	a.Close()
	<-ended
	return nil
}

// sessionStream is a stream of a multiplexed session. One that ends with the session was
// not ended by the other side.
type sessionStream struct {
	io.ReadWriteCloser
	session *yamux.Session
}

// Read implements io.Reader.
func (s sessionStream) Read(p []byte) (int, error) {
	n, err := s.ReadWriteCloser.Read(p)
	if err == io.EOF && s.session.IsClosed() {
		err = nomad.ErrLost
	}
	return n, err
}
