package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
)

// ErrExpired is what an Authenticator wraps for a token whose time is over.
var ErrExpired = errors.New("token expired")

// Authenticator says who calls. With an error the identity may still be set: it
// is what the token claimed. Conn is nil for callers of this process. Access says what
// a caller may do who was admitted by the rules Token or Management.
type Authenticator interface {
	Authenticate(ctx context.Context, token string, rule Rule, conn *Conn) (*acls.AuthenticatedIdentity, error)
	Access(ctx context.Context, id *acls.AuthenticatedIdentity) (*Access, error)
}

// Watcher is an Authenticator that notices when its answers for a caller may change. Watch
// arms the watch and returns the wait, which the end of ctx ends too; nil means that only
// asking again shows a change.
type Watcher interface {
	Watch(id *acls.AuthenticatedIdentity) (wait func(ctx context.Context))
}

// Router says which server answers: "" is this one, else the address of another.
// While there is none it waits, until ctx ends.
type Router interface {
	Route(ctx context.Context, where Where, env nomad.Envelope) (addr string, err error)
}

// RaftConns takes the connections whose first byte says raft.
type RaftConns interface{ HandOff(net.Conn) }

// Caller makes calls; Server and the client's list of servers are Callers.
type Caller interface {
	Call(ctx context.Context, method string, req, resp any) error
}

// Observer is notified of calls and connections. Its methods must not block, nor write to
// what they are given.
type Observer interface {
	// Called is called when a call was answered, after took.
	Called(m Method, c *Call, took time.Duration, err error)
	// Streamed is called when a stream has ended, after took.
	Streamed(m Method, c *Call, took time.Duration, err error)
	// Accepted is called for each connection that was accepted.
	Accepted()
	// HandedOff is called for each connection that was passed to Raft.
	HandedOff()
}

// Config is what a Server is made of. Auth is required.
type Config struct {
	Methods []Method
	Auth    Authenticator
	// Router decides who answers; nil runs every call here.
	Router Router
	// Peers carries calls that another server must answer; needed with a Router.
	Peers *Pool
	// Home is the authoritative region: requests that are the same for all regions go
	// there. "" is the region that they name.
	Home string
	// Self makes the token with which this server calls what only servers may call
	// of another; needed with Peers.
	Self func(ctx context.Context) (string, error)
	// Bound names the node whose connection a forwarded call came over, once it was
	// answered: "" for most calls. Nil binds none.
	Bound func(method string, req Request) string
	// Raft takes raft connections; nil refuses them.
	Raft RaftConns
	// TLS does the handshakes and knows who may speak Raft; nil is none.
	TLS *certs.Store
	// Hold is how long a call is held while no server can answer it; zero means 5 s.
	Hold time.Duration
	// Recheck is how often a stream is asked again whether its token is still good, and
	// how long a read lasts until it is. Later a read is asked when a Watcher notices a
	// change, without one as often as a stream. Zero means 1 s.
	Recheck time.Duration
	// HandshakeTimeout bounds the time until a connection said what it is, TLS
	// included; zero means 5 s, negative no bound.
	HandshakeTimeout time.Duration
	// FrameTimeout bounds the time until a request has arrived, from its first byte on;
	// large ones get more, by their size. Zero means 30 s.
	FrameTimeout time.Duration
	// MaxConnsPerAddr bounds the connections of one address; zero means 100, negative no bound.
	MaxConnsPerAddr int
	// Mux are the settings of the sessions that others open.
	Mux Mux
	// Observer, when set, is notified of every call and connection.
	Observer Observer
	// Audit, when set, is told of every call that came over a connection before it is
	// run, and by done how it ended. Refused is what is wrong with the token. An error
	// of Audit refuses the call, one of done takes the place of the answer.
	Audit func(m Method, c *Call, req Request, refused error) (done func(err error) error, err error)
	Log   *slog.Logger
}

// Server answers the methods of a table, over connections and in process.
type Server struct {
	cfg      Config
	log      *slog.Logger
	methods  map[string]Method
	services map[string]bool
	nodes    *nodeConns
	limit    *addrLimit
	started  time.Time

	greeting chan struct{} // handshakes

	callers, strangers       *budget // of decoded requests
	reading, strangerReading *budget // of requests that are being read
	nodeReading, nodeReplies *budget // of replies of nodes that are being read, and decoded
}

// NewServer checks the table and makes a server of it.
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
		greeting: make(chan struct{}, maxGreeting),
		callers:  newBudget(decodedEach, decodedAll), strangers: newBudget(strangeEach, strangeDecoded),
		reading: newBudget(maxRequest, readingAll), strangerReading: newBudget(maxRequest, strangeReading),
		nodeReading: newBudget(maxNodeReply, repliesReading), nodeReplies: newBudget(repliesEach, repliesDecoded)}
	for _, m := range cfg.Methods {
		if m.Rule == 0 || m.Where == 0 || (m.call == nil) == (m.serve == nil) || (m.Rule == Token) != (m.Check.says != "") {
			return nil, fmt.Errorf("rpc: row %q of the method table is not whole", m.Name)
		}
		if _, twice := s.methods[m.Name]; twice {
			return nil, fmt.Errorf("rpc: two rows for %q in the method table", m.Name)
		}
		m.size = footprintOf(reflect.TypeOf(m.request()))
		s.methods[m.Name] = m
		service, _, _ := strings.Cut(m.Name, ".")
		s.services[service] = s.services[service] || !m.Stream
	}
	return s, nil
}

// Methods returns the table, in no order.
func (s *Server) Methods() []Method {
	out := make([]Method, 0, len(s.methods))
	for _, m := range s.methods {
		out = append(out, m)
	}
	return out
}

// Call runs a method for a caller of this process: the same checks, nothing encoded.
// Reply values may be shared with others: they are read, never written to.
func (s *Server) Call(ctx context.Context, method string, req, resp any) error {
	m, ok := s.methods[method]
	if !ok || m.Stream {
		return unknownMethod(method, s.services)
	}
	in, ok := req.(Request)
	if !ok {
		return fmt.Errorf("rpc: %s takes no %T", method, req)
	}
	within, held := charging(ctx)
	defer held.releaseAfter(ctx)
	out, err := s.run(within, m, nil, decoded(in))
	if err != nil || resp == nil || out == nil {
		return err
	}
	return m.assign(resp, out)
}

// Stream opens a streaming method for a caller of this process. The caller sends
// the request and closes the stream; the end of ctx closes it too.
func (s *Server) Stream(ctx context.Context, method string) (*Stream, error) {
	m, ok := s.methods[method]
	if !ok || !m.Stream {
		return nil, fmt.Errorf("%w: %q", nomad.ErrUnknownMethod, method)
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

// admit authenticates one call. What is wrong with its token is kept in the call: the
// server that answers says so.
func (s *Server) admit(ctx context.Context, m Method, conn *Conn, env nomad.Envelope) (*Call, error) {
	c := &Call{Method: m.Name, rule: m.Rule, Conn: conn, Forwarded: env.Forwarded, Identity: &acls.AuthenticatedIdentity{}}
	id, refused := s.cfg.Auth.Authenticate(ctx, env.AuthToken, m.Rule, conn)
	if id != nil {
		c.Identity = id
	}
	if refused == nil {
		conn.authenticated(c.Identity)
		return c, nil
	}
	switch {
	case errors.Is(refused, certs.ErrPeer):
		return c, refused // the next server would see the certificate of this one
	case m.Rule == Anonymous:
		refused = nil
	case m.Rule == NodeRegister && errors.Is(refused, ErrExpired):
		c.Expired, refused = true, nil
	case m.Rule.ofServers():
		return c, refused // before forwarding
	}
	c.refused = refused
	return c, nil
}

// waited is how long looking for the server that answers may take until the caller is
// looked at again.
const waited = 100 * time.Millisecond

// readmit looks at the caller again before this server answers: it may have waited until
// it led, and known less of tokens before than it does now.
func (s *Server) readmit(ctx context.Context, m Method, c *Call, env nomad.Envelope, begun time.Time) error {
	if c.refused == nil && time.Since(begun) < waited {
		return nil
	}
	again, err := s.admit(ctx, m, c.Conn, env)
	if err != nil {
		return err
	}
	*c = *again
	return c.refused
}

// run answers one call, here or through another server.
func (s *Server) run(ctx context.Context, m Method, conn *Conn, b *body) (out any, err error) {
	begun := time.Now()
	defer b.end()
	c, err := s.admit(ctx, m, conn, b.req.Envelope())
	if s.cfg.Observer != nil {
		defer func() { s.cfg.Observer.Called(m, c, time.Since(begun), err) }()
	}
	var bad error
	if b.free() {
		bad = b.decode(m)
	}
	done, fault := s.audit(m, c, b.req, cmp.Or(err, c.refused))
	if fault != nil {
		return nil, fault
	}
	defer func() {
		if err = done(err); err != nil {
			out = nil
		}
	}()
	if err = cmp.Or(err, bad); err != nil {
		return nil, err
	}
	if m.Home != nil { // it may ask for any part of the request
		if err := s.load(ctx, m, c, b); err != nil {
			return nil, err
		}
	}
	env, looked := s.envelope(m, b.req), time.Now()
	err = s.routed(ctx, m, env, func(addr string) error {
		if addr != "" {
			if err = s.load(ctx, m, c, b); err == nil {
				out, err = s.forward(ctx, hop{addr, env.Region}, m, c, b.req)
			}
			return err
		}
		out, err = s.here(ctx, m, c, b, looked)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// here answers one call on this server.
func (s *Server) here(ctx context.Context, m Method, c *Call, b *body, looked time.Time) (any, error) {
	env := b.req.Envelope()
	if err := s.readmit(ctx, m, c, env, looked); err != nil {
		return nil, err
	}
	if err := s.authorize(ctx, m, c, env); err != nil {
		return nil, err
	}
	if err := s.load(ctx, m, c, b); err != nil {
		return nil, err
	}
	begun := time.Now()
	out, err := s.watched(ctx, m, c, b.req)
	if err == nil && !env.Write && time.Since(begun) >= s.cfg.Recheck {
		out, err = s.afterWait(ctx, m, c, b.req, out)
	}
	return out, err
}

// authorize finds out what the caller may do, and refuses who may not make the call.
func (s *Server) authorize(ctx context.Context, m Method, c *Call, env nomad.Envelope) (err error) {
	if c.Access = new(Access); m.Rule != Token && m.Rule != Management {
		return nil
	}
	access, err := s.cfg.Auth.Access(ctx, c.Identity)
	if err != nil {
		return err
	}
	c.Access = access
	switch {
	case m.Rule == Management:
		return access.NeedManagement()
	case m.Check.ask != nil:
		return m.Check.ask(access, env)
	case m.Check.first != nil:
		err := m.Check.first(access, env)
		access.asked.Store(false) // the handler asks, too
		return err
	}
	return nil
}

// handle runs a method here.
func (s *Server) handle(ctx context.Context, m Method, c *Call, req Request) (out any, err error) {
	if !m.Rule.ofServers() || c.ByCertificate() { // servers of this project send complete requests
		if err := nomad.Whole(req); err != nil {
			return nil, err
		}
	}
	if err := m.available(); err != nil {
		return nil, err
	}
	defer s.recovered(m.Name, &err)
	ctx, wrote := noting(ctx)
	out, err = m.call(ctx, c, req)
	if err = wrote.onlyOnce(err); err == nil {
		err = s.unasked(m, c)
	}
	return out, err
}

// unasked refuses the answer of a handler that should have asked what the caller may do
// and did not: such a handler has a hole.
func (s *Server) unasked(m Method, c *Call) error {
	if m.Rule != Token || c.Access.asked.Load() {
		return nil
	}
	s.log.Error("a method did not ask what its caller may do", "method", m.Name, "needs", m.Check)
	return fmt.Errorf("internal error in %s: its access rule was not asked", m.Name)
}

// runStream answers one streaming call whose handshake is done.
func (s *Server) runStream(ctx context.Context, m Method, conn *Conn, stream *Stream) {
	in := s.intake(conn)
	in.limit = streamedRequest
	b, err := stream.request(m, in, s.cfg.FrameTimeout)
	if err != nil {
		in.release()
		s.log.Debug("read stream request", "method", m.Name, "err", err)
		if errors.Is(err, errTooLarge) {
			stream.refuseLarge(m, s.cfg.FrameTimeout)
		}
		return
	}
	err = s.stream(ctx, m, conn, b, stream)
	if err != nil && ctx.Err() == nil {
		if err := m.sendError(stream, err); err != nil {
			s.log.Debug("end stream", "method", m.Name, "err", err)
		}
	}
}

func (s *Server) stream(ctx context.Context, m Method, conn *Conn, b *body, stream *Stream) (err error) {
	begun := time.Now()
	c, err := s.admit(ctx, m, conn, b.req.Envelope())
	if s.cfg.Observer != nil {
		defer func() { s.cfg.Observer.Streamed(m, c, time.Since(begun), err) }()
	}
	bad := s.loadSmall(ctx, m, b)
	req := b.req
	done, fault := s.audit(m, c, req, cmp.Or(err, c.refused))
	if fault != nil {
		return fault
	}
	defer func() { err = done(err) }()
	if err = cmp.Or(err, bad); err != nil {
		return err
	}
	var next *Stream
	env, looked := s.envelope(m, req), time.Now()
	err = s.routed(ctx, m, env, func(addr string) error {
		if addr == "" {
			return s.readmit(ctx, m, c, req.Envelope(), looked)
		}
		next, err = s.cfg.Peers.Stream(ctx, addr, m.Name)
		return err
	})
	if err != nil {
		return err
	}
	if next == nil {
		if err := s.authorize(ctx, m, c, req.Envelope()); err != nil {
			return err
		}
		if err := nomad.Whole(req); err != nil {
			return err
		}
		return s.serve(ctx, m, c, req, stream)
	}
	defer next.Close()
	req, err = s.passed(ctx, hop{region: env.Region}, m, c, req)
	if err != nil {
		return err
	}
	if err := next.Encode(req); err != nil {
		return err
	}
	return Bridge(stream, next)
}

// serve runs a streaming method here, as long as its caller may have it.
func (s *Server) serve(ctx context.Context, m Method, c *Call, req Request, stream *Stream) (err error) {
	if err := m.available(); err != nil {
		return err
	}
	c.renew = func(ctx context.Context) (*Call, error) { return s.stillGood(ctx, m, c, req.Envelope()) }
	ctx, stop := stream.While(ctx, s.cfg.Recheck, func(ctx context.Context) error {
		_, err := c.renew(ctx)
		return err
	})
	defer stop()
	defer s.recovered(m.Name, &err)
	if err := m.serve(ctx, c, req, stream); err != nil {
		return err
	}
	return s.unasked(m, c)
}

// recovered turns a panic of a handler into an error of that call: a bug in one
// method must not end the tasks and the elections of the whole agent.
func (s *Server) recovered(method string, err *error) {
	if p := recover(); p != nil {
		s.log.Error("handler panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("internal error in %s", method)
	}
}
