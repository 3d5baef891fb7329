// Package readproxy serves HTTP/2 on a connection that a sandboxed program has inherited. The program reads from Consul and
// Vault with it, without a token and without a network.
//
//	program ──HTTP/2 on a socket pair──▶ Serve ──host consul──▶ internal/consul/readproxy ──▶ agent of Consul
//	                                       └────host vault───▶ internal/vault/readproxy ───▶ Vault
//
// The program is the renderer of a task's templates. The connection has neither a path nor an abstract address, so the
// task cannot connect to it. This matters because the handlers add tokens that the program does not have.
//
// At most MaxRequests run at a time, for all hosts together. A handler ends with its own limits or with the connection.
//
// Goroutines: Serve has those of net/http for one connection, and ends them.
package readproxy

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
)

const (
	// MaxRequests limits the requests of a connection that run at the same time. Others get status 429.
	MaxRequests = 96
	// maxHeader limits the header of a request, with its path.
	maxHeader = 16 << 10
	// buffer is the flow control window for data that the program sends. Only writes to Vault have some.
	buffer = 64 << 10
)

// Serve serves the connection until it or ctx ends, and closes it. The handler of a request is that of its host. No handler
// runs after the return.
func Serve(ctx context.Context, conn net.Conn, handlers map[string]http.Handler) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	m := &mux{handlers: handlers, slots: make(chan struct{}, MaxRequests)}
	l := &single{conn: conn, closed: make(chan struct{})}
	srv := &http.Server{
		Handler: m, Protocols: &protocols, MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0),
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: MaxRequests, MaxReceiveBufferPerConnection: buffer, MaxReceiveBufferPerStream: buffer},
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				l.Close()
			}
		},
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	_ = srv.Serve(l) // it always fails in the end, because the listener has no second connection
	cancel()
	conn.Close() // also one that was not served
	if l.accepted() {
		<-l.closed
	}
	for range MaxRequests {
		m.slots <- struct{}{} // all requests have ended, and no other begins
	}
}

// mux sends requests to the handler of their host.
type mux struct {
	handlers map[string]http.Handler
	slots    chan struct{} // one per running request
}

// ServeHTTP handles a request.
func (m *mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	default:
		http.Error(w, "too many requests at the same time", http.StatusTooManyRequests)
		return
	}
	h := m.handlers[r.Host]
	if h == nil {
		http.Error(w, "the client does not read from this host", http.StatusForbidden)
		return
	}
	h.ServeHTTP(w, r)
}

// single is a listener of one connection. It is closed when the connection is.
type single struct {
	mu     sync.Mutex
	conn   net.Conn
	given  bool
	once   sync.Once
	closed chan struct{}
}

// Accept returns the connection, and then waits until it is closed.
func (l *single) Accept() (net.Conn, error) {
	l.mu.Lock()
	first := !l.given
	l.given = true
	l.mu.Unlock()
	if first {
		return l.conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *single) accepted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.given
}

// Close ends Accept.
func (l *single) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns the address of the connection, which has no name.
func (l *single) Addr() net.Addr { return l.conn.LocalAddr() }
