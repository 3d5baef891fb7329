// Package readproxy lets a sandboxed program read from Consul without a token and without a network. The agent serves
// HTTP/2 on a connection that the program has inherited, and sends the allowed requests to Consul.
//
//	program ──HTTP/2 on a socket pair──▶ Proxy ──routes, parameters──▶ adds the token ──▶ agent of Consul
//	                                       └─ anything else: status 403, nothing is sent
//
// The program is the renderer of a task's templates. The connection has neither a path nor an abstract address, so the
// task cannot connect to it. This matters because the proxy can add the token of the agent
// (client.template.use_client_consul_token), with which a task must not read.
//
// Only reads of consul-template pass, as a table of paths and query parameters. Headers of the program are dropped, also
// X-Consul-Token and Authorization. Paths with the segments "." and ".." are refused, because a server may clean them.
// The text of an error of Consul is replaced, because Consul may repeat a token in it.
//
// Answers are streamed, at most MaxAnswer bytes each: the proxy holds a buffer per request, and the program that does not
// read slows down Consul's side only. At most MaxRequests run at a time, and each ends with its time limit or with the
// connection.
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

	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/render"
)

const (
	// MaxAnswer limits an answer, in bytes. A longer one is cut, and the stream ends with an error.
	MaxAnswer = render.MaxConsulAnswer
	// MaxRequests limits the requests of a connection that run at the same time. Others get status 429.
	MaxRequests = 64
	// maxHeader limits the header of a request, with its path.
	maxHeader = 16 << 10
	// buffer is the flow control window for data that the program sends. No request has any.
	buffer = 64 << 10
)

// Token is the token that the requests get. It is asked for each request, so a renewed one is used at once.
type Token struct {
	Secret   func() string       // "" for none
	Rejected func(secret string) // is called when Consul does not know the token; nil if no login makes another one
}

// Proxy sends the reads of one program to Consul.
type Proxy struct {
	Agent *consul.Agent
	Token Token
	slots chan struct{} // one per running request
}

// New returns the proxy of a program.
func New(agent *consul.Agent, token Token) *Proxy {
	return &Proxy{Agent: agent, Token: token, slots: make(chan struct{}, MaxRequests)}
}

// Serve serves the connection until it or ctx ends, and closes it. It is called once.
func (p *Proxy) Serve(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	l := &single{conn: conn, closed: make(chan struct{})}
	srv := &http.Server{
		Handler: p, Protocols: &protocols, MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0),
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
		p.slots <- struct{}{} // all requests have ended, and no other begins
	}
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
