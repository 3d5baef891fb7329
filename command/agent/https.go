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

// wrongScheme is told to those who speak HTTP where HTTPS is expected.
const wrongScheme = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"

// webListener gives the HTTP server connections whose handshake is done: each is
// done beside the others, within a time of its own. Whether there is one is asked
// of the certificates for each connection, so that a reload can change it.
type webListener struct {
	net.Listener
	certs   *certs.Store
	timeout time.Duration // of a handshake; 0 is none
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

// Accept returns the next connection whose handshake is done.
func (l *webListener) Accept() (net.Conn, error) {
	c, open := <-l.ready
	if !open {
		return nil, net.ErrClosed
	}
	return c.conn, c.err
}

// run accepts until the listener is closed; handshakes that are not done then end.
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
			l.give(ctx, webConn{err: err}) // the server waits before it asks again
		default:
			wg.Go(func() { l.greet(ctx, raw) })
		}
	}
}

// greet does the handshake of a connection.
func (l *webListener) greet(ctx context.Context, raw net.Conn) {
	if l.timeout > 0 {
		raw.SetDeadline(time.Now().Add(l.timeout))
	}
	conn, err := l.certs.AcceptHTTP(ctx, raw)
	if err != nil {
		l.log.Debug("refused an HTTPS connection", "addr", raw.RemoteAddr(), "err", err)
		if spokeHTTP(err) {
			_, _ = io.WriteString(raw, wrongScheme) // it is closed in any case
		}
		certs.HangUp(raw)
		return
	}
	raw.SetDeadline(time.Time{})
	l.give(ctx, webConn{conn: conn})
}

// give hands a connection to the server, unless that has ended.
func (l *webListener) give(ctx context.Context, c webConn) {
	select {
	case l.ready <- c:
	case <-ctx.Done():
		if c.conn != nil {
			c.conn.Close()
		}
	}
}

// spokeHTTP says whether a handshake failed because a request came in its place.
func spokeHTTP(err error) bool {
	var head tls.RecordHeaderError
	return errors.As(err, &head) &&
		slices.Contains([]string{"GET /", "HEAD ", "POST ", "PUT /", "DELET", "OPTIO", "PATCH"}, string(head.RecordHeader[:]))
}
