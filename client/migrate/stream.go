package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Remote is the snapshot of an allocation on another node.
type Remote struct {
	URL   string
	Token string
	HTTP  *http.Client // it must follow no redirect and decompress nothing
}

// errFinal is wrapped in errors that another connection cannot correct.
var errFinal = errors.New("giving up")

// stream reads a snapshot over as many connections as needed.
type stream struct {
	open   func(offset int64, patience time.Duration) (*response, error)
	limits Limits
	late   time.Time
	pause  func(time.Duration) error

	resp     *response
	offset   int64
	sum      hash.Hash
	failures int // connections since the last progress
	verified bool
}

// response is one connection. Close also cancels its request.
type response struct {
	*http.Response
	cancel context.CancelCauseFunc
	cause  func() error
}

// Stream returns a reader of the snapshot. Close must be called. The reader ends with ctx.
func (r Remote) Stream(ctx context.Context, l Limits) io.ReadCloser {
	return &stream{
		open:   func(offset int64, patience time.Duration) (*response, error) { return r.connect(ctx, offset, patience) },
		limits: l, late: time.Now().Add(l.Total), sum: sha256.New(),
		pause: func(d time.Duration) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(d):
				return nil
			}
		},
	}
}

// connect requests the snapshot from an offset on. The node must answer within patience.
func (r Remote) connect(ctx context.Context, offset int64, patience time.Duration) (*response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer time.AfterFunc(patience, func() { cancel(noData(patience)) }).Stop()
	out := &response{cancel: cancel, cause: func() error { return context.Cause(ctx) }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, nil)
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("%w: %w", errFinal, err)
	}
	req.Header.Set(TokenHeader, r.Token)
	req.Header.Set(OffsetHeader, strconv.FormatInt(offset, 10))
	out.Response, err = r.HTTP.Do(req)
	if err != nil {
		cause := context.Cause(ctx)
		cancel(nil)
		if cause != nil {
			return nil, cause
		}
		return nil, fmt.Errorf("request the snapshot: %v", err) // not wrapped: it may be io.EOF, the end of a stream
	}
	switch got := out.Header.Get(OffsetHeader); {
	case out.StatusCode != http.StatusOK:
		text, _ := io.ReadAll(io.LimitReader(out.Body, 512)) // a truncated text is still useful
		err = fmt.Errorf("the node answered %s: %q", out.Status, text)
		if out.StatusCode < http.StatusInternalServerError {
			err = fmt.Errorf("%w: %w", errFinal, err)
		}
	case offset > 0 && got != strconv.FormatInt(offset, 10):
		err = fmt.Errorf("%w: the connection broke after %d bytes, and the node cannot resume", errFinal, offset)
	}
	if err != nil {
		return nil, errors.Join(err, out.close())
	}
	return out, nil
}

func (r *response) close() error {
	r.cancel(nil)
	return r.Body.Close()
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for {
		n, err := s.readOnce(p)
		if n > 0 {
			s.failures = 0
			s.offset += int64(n)
			s.sum.Write(p[:n]) //nolint:errcheck // a hash never fails
			return n, nil
		}
		switch {
		case err == nil:
			continue
		case err == io.EOF: //nolint:errorlint // of the body; that of a failed request is wrapped
			return 0, s.verify()
		case errors.Is(err, errFinal):
			return 0, err
		}
		if s.failures++; s.failures >= s.limits.Attempts {
			return 0, fmt.Errorf("%d connections failed after %d bytes: %w", s.failures, s.offset, err)
		}
		if err := errors.Join(s.drop(), s.pause(s.limits.Pause)); err != nil {
			return 0, err
		}
	}
}

// readOnce reads from the current connection, or from a new one.
func (s *stream) readOnce(p []byte) (int, error) {
	left := time.Until(s.late)
	if left <= 0 {
		return 0, fmt.Errorf("%w: %w: the stream takes longer than %v", errFinal, ErrRefused, s.limits.Total)
	}
	patience := min(s.limits.Stall, left)
	if s.resp == nil {
		var err error
		if s.resp, err = s.open(s.offset, patience); err != nil {
			return 0, err
		}
	}
	resp := s.resp
	timer := time.AfterFunc(patience, func() { resp.cancel(noData(patience)) })
	n, err := resp.Body.Read(p)
	if !timer.Stop() && n == 0 && err != nil {
		err = errors.Join(resp.cause(), err)
	}
	return n, err
}

func noData(d time.Duration) error { return fmt.Errorf("no data for %v", d) }

// verify compares the digest at the end. Nomad 2.0 sends none.
func (s *stream) verify() error {
	if s.verified {
		return io.EOF
	}
	values, announced := s.resp.Trailer[http.CanonicalHeaderKey(DigestTrailer)]
	if announced {
		want := hex.EncodeToString(s.sum.Sum(nil))
		if len(values) != 1 || values[0] != want {
			return fmt.Errorf("%w: %w: the digest of the stream is wrong", errFinal, ErrRefused)
		}
	}
	s.verified = true
	return io.EOF
}

// drop closes a broken connection.
func (s *stream) drop() error {
	if s.resp == nil {
		return nil
	}
	s.resp.close() //nolint:errcheck // it is broken
	s.resp = nil
	return nil
}

// Close implements io.Closer.
func (s *stream) Close() error {
	if s.resp == nil {
		return nil
	}
	err := s.resp.close()
	s.resp = nil
	return err
}
