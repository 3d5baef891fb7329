package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// Authenticator authenticates callers. With an error, the identity may still hold the
// claims of the token. conn is nil for in-process callers. Access returns the rights of a caller
// under the rules Token or Management.
type Authenticator interface {
	Authenticate(ctx context.Context, token string, rule Rule, conn *Conn) (*rbac.AuthenticatedIdentity, error)
	Access(ctx context.Context, id *rbac.AuthenticatedIdentity) (*Access, error)
}

// Watcher is an Authenticator that notices when a caller's rights may have changed. Watch
// starts the watch and returns a function that waits for a change or the end of ctx. Nil means
// that changes can only be found by polling.
type Watcher interface {
	Watch(id *rbac.AuthenticatedIdentity) (wait func(ctx context.Context))
}

// Router finds the server that answers: "" is this server, otherwise the result is an address.
// Without such a server it waits until ctx ends.
type Router interface {
	Route(ctx context.Context, where Where, env message.Envelope) (addr string, err error)
}

// RaftConns receives the connections whose first byte selects Raft.
type RaftConns interface{ HandOff(net.Conn) }

// Observer is notified of calls and connections. Its methods must not block or modify their
// arguments.
type Observer interface {
	// Called is called after a call was answered. took is its duration.
	Called(m Method, c *Call, took time.Duration, err error)
	// Streamed is called after a stream has ended. took is its duration.
	Streamed(m Method, c *Call, took time.Duration, err error)
	// Accepted is called for each connection that was accepted.
	Accepted()
	// HandedOff is called for each connection that was passed to Raft.
	HandedOff()
}

// Config configures a Server. Auth is required.
type Config struct {
	Methods []Method
	Auth    Authenticator
	// Router finds the server that answers; nil runs every call on this server.
	Router Router
	// Peers forwards calls to other servers; required with a Router.
	Peers *Pool
	// Home is the authoritative region, which answers the requests for data that all regions
	// share. If it is empty, the region of the request answers.
	Home string
	// Self returns the token for calls that only servers may make; required with Peers.
	Self func(ctx context.Context) (string, error)
	// Bound returns the ID of the node to which the connection of a call is bound after another
	// server has answered the call. It returns "" for most methods, which bind nothing. Nil binds
	// no connection.
	Bound func(method string, req Request) string
	// Raft receives Raft connections; nil refuses them.
	Raft RaftConns
	// TLS does the TLS handshakes and checks which peers may use Raft; nil disables TLS.
	TLS *certs.Store
	// Hold is how long a call is held while no server can answer it; zero means 5 s.
	Hold time.Duration
	// Recheck is the interval at which the token of a stream is verified again, and the time
	// before the first recheck of a read. Later rechecks of a read follow the changes that a
	// Watcher reports, or this interval without a Watcher. Zero means 1 s.
	Recheck time.Duration
	// HandshakeTimeout limits the time until a connection has identified its protocol,
	// including TLS. Zero means 5 s, negative no limit.
	HandshakeTimeout time.Duration
	// FrameTimeout limits the time from the first byte of a request to its last. Large requests
	// get more time, in proportion to their size. Zero means 30 s.
	FrameTimeout time.Duration
	// MaxConnsPerAddr limits the connections per address; zero means 100, negative no limit.
	MaxConnsPerAddr int
	// Mux holds the settings of the sessions that peers open.
	Mux wire.Mux
	// Observer, when set, is notified of every call and connection.
	Observer Observer
	// Audit, if set, is called before every call that came over a connection. done is called at
	// its end. refused is the authentication error. An error of Audit refuses the call. The
	// error that done returns replaces the error of the answer.
	Audit func(m Method, c *Call, req Request, refused error) (done func(err error) error, err error)
	Log   *slog.Logger
}

// Server answers the methods of a table over connections and in process.
type Server struct {
	cfg      Config
	log      *slog.Logger
	methods  map[string]Method
	services map[string]bool
	nodes    *nodeConns
	limit    *addrLimit
	started  time.Time

	handshakes chan struct{} // handshakes

	authorized, unauthorized        *wire.Budget // for decoded requests
	reading, unauthenticatedReading *wire.Budget // for requests that are being read
	nodeReading, nodeReplies        *wire.Budget // for replies of nodes that are being read, and decoded
}

// NewServer validates the method table and returns a Server for it.
func NewServer(cfg Config) (*Server, error) {
	if cfg.Auth == nil {
		return nil, errors.New("rpc: no authenticator")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Hold == 0 {
		cfg.Hold = holdTimeout
	}
	if cfg.Recheck == 0 {
		cfg.Recheck = time.Second
	}
	if cfg.HandshakeTimeout == 0 {
		cfg.HandshakeTimeout = 5 * time.Second
	}
	if cfg.FrameTimeout == 0 {
		cfg.FrameTimeout = 30 * time.Second
	}
	if cfg.MaxConnsPerAddr == 0 {
		cfg.MaxConnsPerAddr = 100
	}
	s := &Server{cfg: cfg, log: cfg.Log, methods: map[string]Method{}, services: map[string]bool{},
		nodes: newNodeConns(), limit: newAddrLimit(cfg.MaxConnsPerAddr), started: time.Now(),
		handshakes: make(chan struct{}, maxHandshakes),
		authorized: wire.NewBudget(decodedEach, decodedAll), unauthorized: wire.NewBudget(unauthorizedEach, unauthorizedAll),
		reading: wire.NewBudget(wire.MaxRequest, readingAll), unauthenticatedReading: wire.NewBudget(wire.MaxRequest, readingUnauthenticated),
		nodeReading: wire.NewBudget(maxNodeReply, repliesReading), nodeReplies: wire.NewBudget(repliesEach, repliesDecoded)}
	for _, m := range cfg.Methods {
		if m.Rule == 0 || m.Where == 0 || (m.call == nil) == (m.serve == nil) || (m.Rule == Token) != m.Check.valid() {
			return nil, fmt.Errorf("rpc: row %q of the method table is incomplete", m.Name)
		}
		if _, twice := s.methods[m.Name]; twice {
			return nil, fmt.Errorf("rpc: two rows for %q in the method table", m.Name)
		}
		m.size = wire.FootprintOf(reflect.TypeOf(m.request()))
		s.methods[m.Name] = m
		service, _, _ := strings.Cut(m.Name, ".")
		s.services[service] = s.services[service] || !m.Stream
	}
	return s, nil
}

// Methods returns the method table in no particular order.
func (s *Server) Methods() []Method {
	out := make([]Method, 0, len(s.methods))
	for _, m := range s.methods {
		out = append(out, m)
	}
	return out
}

// unknownMethod returns the error about a method without a row.
func (s *Server) unknownMethod(name string) error {
	service, _, _ := strings.Cut(name, ".")
	return apierror.NoMethod(name, s.services[service])
}

// Call runs a method for a caller in this process. It applies the same checks but encodes
// nothing. Reply values may be shared with other callers: treat them as read-only.
func (s *Server) Call(ctx context.Context, method string, req, resp any) error {
	m, ok := s.methods[method]
	if !ok || m.Stream {
		return s.unknownMethod(method)
	}
	in, ok := req.(Request)
	if !ok {
		return fmt.Errorf("rpc: %s does not take a %T", method, req)
	}
	if !m.takes(in) {
		return fmt.Errorf("rpc: %s does not take a %T", method, req)
	}
	within, held := charging(ctx)
	defer held.releaseAfter(ctx)
	out, err := (&call{s: s, m: m, body: decoded(in)}).run(within, nil)
	if err != nil || resp == nil || out == nil {
		return err
	}
	return m.assign(resp, out)
}

// Stream opens a streaming method for a caller in this process. The caller sends the request
// and closes the stream. The end of ctx also closes it.
func (s *Server) Stream(ctx context.Context, method string) (*Stream, error) {
	m, ok := s.methods[method]
	if !ok || !m.Stream {
		return nil, fmt.Errorf("%w: %q", apierror.ErrUnknownMethod, method)
	}
	near, far := Pipe()
	stop := context.AfterFunc(ctx, func() { near.Close() })
	go func() {
		defer stop()
		defer far.Close()
		s.runStream(ctx, m, nil, far)
	}()
	return near, nil
}

// runStream answers one streaming call after its handshake.
func (s *Server) runStream(ctx context.Context, m Method, conn *Conn, stream *Stream) {
	in := s.intake(conn)
	in.Limit = streamedRequest
	b, err := stream.request(m, in, s.cfg.FrameTimeout)
	if err != nil {
		in.Release()
		s.log.Debug("read stream request", "method", m.Name, "err", err)
		if errors.Is(err, wire.ErrTooLarge) {
			stream.refuseLarge(m, s.cfg.FrameTimeout)
		}
		return
	}
	if _, err = (&call{s: s, m: m, body: b, stream: stream}).run(ctx, conn); err != nil && ctx.Err() == nil {
		if err := m.sendError(stream, err); err != nil {
			s.log.Debug("end stream", "method", m.Name, "err", err)
		}
	}
}
