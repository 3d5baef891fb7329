package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
)

// wrongScheme is the response to an HTTP request on an HTTPS port.
const wrongScheme = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"

// webListener returns connections whose TLS handshake is complete. Handshakes run concurrently,
// each with its own timeout. The certificate store decides for each connection whether it uses
// TLS, so that a reload can change that.
type webListener struct {
	net.Listener
	certs   *certs.Store
	timeout time.Duration // of a handshake; 0 means none
	log     *slog.Logger
	ready   chan webConn
}

type webConn struct {
	conn net.Conn
	err  error
}

func newWebListener(ln net.Listener, store *certs.Store, timeout time.Duration, log *slog.Logger) *webListener {
	return &webListener{Listener: ln, certs: store, timeout: timeout, log: log, ready: make(chan webConn)}
}

// Accept returns the next connection whose handshake is complete.
func (l *webListener) Accept() (net.Conn, error) {
	c, open := <-l.ready
	if !open {
		return nil, net.ErrClosed
	}
	return c.conn, c.err
}

// run accepts connections until the listener is closed, and then aborts the remaining handshakes.
func (l *webListener) run(ctx context.Context) {
	defer close(l.ready)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		raw, err := l.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			l.give(ctx, webConn{err: err}) // the HTTP server waits before it accepts again
		default:
			wg.Go(func() { l.greet(ctx, raw) })
		}
	}
}

// greet performs the handshake of a connection.
func (l *webListener) greet(ctx context.Context, raw net.Conn) {
	if l.timeout > 0 {
		raw.SetDeadline(time.Now().Add(l.timeout))
	}
	conn, err := l.certs.AcceptHTTP(ctx, raw)
	if err != nil {
		l.log.Debug("rejected HTTPS connection", "addr", raw.RemoteAddr(), "err", err)
		if spokeHTTP(err) {
			_, _ = io.WriteString(raw, wrongScheme) // best effort: the connection is closed
		}
		certs.HangUp(raw)
		return
	}
	raw.SetDeadline(time.Time{})
	l.give(ctx, webConn{conn: conn})
}

// give passes a connection to Accept, or closes it if ctx has ended.
func (l *webListener) give(ctx context.Context, c webConn) {
	select {
	case l.ready <- c:
	case <-ctx.Done():
		if c.conn != nil {
			c.conn.Close()
		}
	}
}

// spokeHTTP reports whether a handshake failed because the client sent an HTTP request.
func spokeHTTP(err error) bool {
	var head tls.RecordHeaderError
	return errors.As(err, &head) &&
		slices.Contains([]string{"GET /", "HEAD ", "POST ", "PUT /", "DELET", "OPTIO", "PATCH"}, string(head.RecordHeader[:]))
}
