package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// PoolConfig configures a Pool. Zero values mean the defaults, which are those of a client of
// Nomad 2.0.
type PoolConfig struct {
	// Serve answers the streams that the peer opens; nil refuses them.
	Serve *Server
	// DialTimeout limits the connecting; zero means 10 s.
	DialTimeout time.Duration
	// IdleTimeout is how long an unused session stays open; zero means 5 min.
	IdleTimeout time.Duration
	// MaxIdleStreams is how many unused streams a session keeps; zero means 2.
	MaxIdleStreams int
	// TLS does the handshakes with servers; nil disables TLS.
	TLS *certs.Store
	// Region is the region of this agent. RegionOf returns the region of the server at an
	// address. If it is nil or returns "", that is the region of this agent. Servers prove
	// their region by certificates.
	Region   string
	RegionOf func(addr string) string
	// Patience is how long a call waits for its answer before the peer is pinged; zero means 5
	// s. The wait time of a blocking query is added.
	Patience time.Duration
	// AnswerWithin is the timeout of that ping; zero means 3 s.
	AnswerWithin time.Duration
	// Mux holds the settings of the sessions.
	Mux wire.Mux
	Log *slog.Logger
}

// Pool holds one session per server address.
type Pool struct {
	cfg    PoolConfig
	log    *slog.Logger
	ctx    context.Context // ends with Close; parent of the contexts of served streams
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	peers map[string]*peer
}

// NewPool returns an empty pool. The caller must close it.
func NewPool(cfg PoolConfig) *Pool {
	if cfg.DialTimeout == 0 {
		cfg.DialTimeout = 10 * time.Second
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = 5 * time.Minute
	}
	if cfg.MaxIdleStreams == 0 {
		cfg.MaxIdleStreams = 2
	}
	if cfg.Patience == 0 {
		cfg.Patience = 5 * time.Second
	}
	if cfg.AnswerWithin == 0 {
		cfg.AnswerWithin = 3 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Pool{cfg: cfg, log: cfg.Log, ctx: ctx, cancel: cancel, peers: map[string]*peer{}}
}

// peer is one session, or a session that is being opened.
type peer struct {
	addr  string
	ready chan struct{} // closed once conn or err is set
	conn  *Conn
	wire  *dialed
	err   error
	timer *time.Timer // closes the idle session

	mu   sync.Mutex
	idle []*wire.Caller
	busy int
}

// Call makes one call to the server at addr. The end of ctx ends the call. A server that no
// longer answers pings ends it within seconds, even if its TCP connection persists. A write
// whose reply was lost fails with apierror.ErrMaybeApplied.
func (p *Pool) Call(ctx context.Context, addr, method string, req, resp any) error {
	peer, c, err := p.acquire(ctx, addr, wire.KindCalls)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.Conn.Close() })
	unwatch := p.watch(peer, p.cfg.Patience+blockTime(req))
	broken, err := c.Call(method, req, resp)
	unwatch()
	if !stop() {
		broken = true
	}
	// A server of Nomad 2.0 closes the stream after an unknown method or undecodable arguments. The
	// error does not always show that, so that a stream is used again only after a success.
	p.release(peer, c, broken || err != nil, err)
	switch {
	case !broken:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return maybeApplied(req, peer.refused(err))
}

// maybeApplied marks the error of a write whose reply was lost or is invalid: the write may
// have been applied.
func maybeApplied(req any, err error) error {
	if r, ok := req.(Request); ok && r.Envelope().Write && !errors.Is(err, apierror.ErrUnsent) {
		return fmt.Errorf("%w: %w", apierror.ErrMaybeApplied, err)
	}
	return err
}

// blockTime returns the wait time of a blocking query.
func blockTime(req any) time.Duration {
	q, ok := req.(interface{ Query() *message.QueryOptions })
	if !ok || q.Query().MinQueryIndex == 0 {
		return 0
	}
	wait := q.Query().BlockingTimeout()
	return wait + wait/message.JitterFraction
}

// Stream opens a streaming call. The caller sends the request and closes the stream. The end of
// ctx also closes it.
func (p *Pool) Stream(ctx context.Context, addr, method string) (*Stream, error) {
	peer, c, err := p.acquire(ctx, addr, wire.KindStream)
	if err != nil {
		return nil, err
	}
	conn := &idleStream{ReadWriteCloser: sessionStream{c.Conn, peer.conn.session}, ended: func() { p.release(peer, nil, false, nil) }}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	unwatch := p.watch(peer, p.cfg.Patience)
	defer unwatch()
	s, err := openStream(conn, method)
	if err != nil {
		stop()
		if err = peer.refused(err); ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	return s, err
}

// idleStream keeps its session from being idle until the stream is closed.
type idleStream struct {
	io.ReadWriteCloser
	once  sync.Once
	ended func()
}

// Close implements io.Closer.
func (h *idleStream) Close() error {
	err := h.ReadWriteCloser.Close()
	h.once.Do(h.ended)
	return err
}

// Check pings the server at addr, if there is a session to it. If it does not answer within
// seconds, Check closes the session and so ends all its calls. A stopped or disconnected
// process keeps its connections, so its callers would otherwise wait for a long time.
func (p *Pool) Check(addr string) {
	p.mu.Lock()
	pe := p.peers[addr]
	p.mu.Unlock()
	if pe == nil {
		return
	}
	select {
	case <-pe.ready:
	case <-p.ctx.Done():
		return
	}
	if pe.err == nil && !pe.answers(p.cfg.AnswerWithin) {
		p.log.Warn("server does not answer pings, closing its connection", "addr", addr)
		p.drop(pe)
	}
}

// watch pings the peer of a session after patience has passed, and then periodically, until
// stop is called.
func (p *Pool) watch(pe *peer, patience time.Duration) (stop func()) {
	done := make(chan struct{})
	timer := time.AfterFunc(patience, func() {
		for pe.answers(p.cfg.AnswerWithin) {
			select {
			case <-done:
				return
			case <-time.After(p.cfg.Patience):
			}
		}
		p.drop(pe)
	})
	return func() {
		timer.Stop()
		close(done)
	}
}

// answers reports whether the peer answers a ping in time.
func (pe *peer) answers(within time.Duration) bool {
	answer := make(chan error, 1)
	go func() {
		_, err := pe.conn.session.Ping()
		answer <- err
	}()
	select {
	case err := <-answer:
		return err == nil
	case <-time.After(within):
		return false
	}
}

// Close closes all sessions and waits for the streams that they serve.
func (p *Pool) Close() error {
	p.cancel()
	p.mu.Lock()
	peers := p.peers
	p.peers = nil
	p.mu.Unlock()
	for _, peer := range peers {
		<-peer.ready
		peer.close()
	}
	p.wg.Wait()
	return nil
}

// acquire returns a stream to addr. For calls it reuses an open stream if possible. It replaces
// a dead session once, because nothing was sent over it yet.
func (p *Pool) acquire(ctx context.Context, addr string, kind wire.Kind) (*peer, *wire.Caller, error) {
	for again := true; ; again = false {
		pe, err := p.session(ctx, addr)
		if err != nil {
			return nil, nil, err
		}
		if c := pe.take(kind); c != nil && !pe.conn.session.IsClosed() {
			return pe, c, nil
		}
		stream, err := pe.conn.open(kind)
		if err == nil {
			return pe, wire.NewCaller(stream), nil
		}
		err = pe.refused(err)
		p.release(pe, nil, true, err)
		p.drop(pe)
		if !again {
			return nil, nil, err
		}
	}
}

// session returns the session to addr. It opens one if necessary.
func (p *Pool) session(ctx context.Context, addr string) (*peer, error) {
	p.mu.Lock()
	if p.peers == nil {
		p.mu.Unlock()
		return nil, fmt.Errorf("%w: the pool is closed", apierror.ErrUnsent)
	}
	pe := p.peers[addr]
	if pe == nil {
		pe = &peer{addr: addr, ready: make(chan struct{})}
		p.peers[addr] = pe
		p.wg.Go(func() { p.connect(pe) })
	}
	p.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-pe.ready:
		return pe, pe.err
	}
}

// connect opens the session of a peer and serves its streams until it ends.
func (p *Pool) connect(pe *peer) {
	conn, err := p.dial(p.ctx, pe.addr, p.regionOf(pe.addr), wire.KindMux)
	if err == nil {
		pe.wire = conn
		var session *wire.Session
		if session, err = p.cfg.Mux.Client(conn, p.log); err == nil {
			pe.conn = &Conn{remote: conn.RemoteAddr(), established: time.Now(), session: session, perStream: true}
			pe.timer = time.AfterFunc(p.cfg.IdleTimeout, func() { p.reap(pe) })
		}
	}
	pe.err = err
	close(pe.ready)
	defer p.drop(pe)
	if err != nil {
		return
	}
	if p.cfg.Serve != nil {
		p.cfg.Serve.serveSession(p.ctx, pe.conn)
		return
	}
	for { // no local server: refuse by closing
		s, err := pe.conn.session.AcceptStream()
		if err != nil {
			return
		}
		s.Close()
	}
}

// release returns a stream to the session, or closes it if it has ended or is not needed.
func (p *Pool) release(pe *peer, c *wire.Caller, ended bool, err error) {
	pe.mu.Lock()
	pe.busy--
	keep := c != nil && !ended && len(pe.idle) < p.cfg.MaxIdleStreams
	if keep {
		pe.idle = append(pe.idle, c)
	}
	pe.mu.Unlock()
	pe.timer.Reset(p.cfg.IdleTimeout)
	if keep || c == nil {
		return
	}
	c.Conn.Close()
	if ended && Lost(err) && pe.conn.session.IsClosed() {
		p.drop(pe)
	}
}

// reap closes an idle session.
func (p *Pool) reap(pe *peer) {
	pe.mu.Lock()
	busy := pe.busy > 0
	pe.mu.Unlock()
	if busy {
		pe.timer.Reset(p.cfg.IdleTimeout)
		return
	}
	p.drop(pe)
}

// drop removes a session from the pool and closes it.
func (p *Pool) drop(pe *peer) {
	p.mu.Lock()
	if p.peers[pe.addr] == pe {
		delete(p.peers, pe.addr)
	}
	p.mu.Unlock()
	pe.close()
}

// take returns an unused stream for calls, or nil. In either case the session counts as used.
func (pe *peer) take(kind wire.Kind) *wire.Caller {
	pe.mu.Lock()
	defer pe.mu.Unlock()
	pe.busy++
	n := len(pe.idle)
	if n == 0 || kind != wire.KindCalls {
		return nil
	}
	c := pe.idle[n-1]
	pe.idle = pe.idle[:n-1]
	return c
}

// refused returns the cause if the server rejected this agent's certificate.
func (pe *peer) refused(err error) error { return pe.wire.refused(err) }

func (pe *peer) close() {
	if pe.conn != nil {
		pe.timer.Stop()
		pe.conn.session.Close()
	}
}

// Lost reports whether err means that the connection ended during a call. The server may or may
// not have executed the call.
func Lost(err error) bool {
	return errors.Is(err, apierror.ErrLost) || isEOF(err) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
