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

	"github.com/hashicorp/yamux"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/nomad"
)

// PoolConfig is what a Pool is made of; zero values mean the defaults of
// compat/wire.md section 2 for a client.
type PoolConfig struct {
	// Serve answers the streams that the other side opens; nil refuses them.
	Serve *Server
	// DialTimeout bounds connecting; zero means 10 s.
	DialTimeout time.Duration
	// IdleTimeout closes sessions that nothing used for so long; zero means 5 min.
	IdleTimeout time.Duration
	// MaxIdleStreams is how many unused streams a session keeps; zero means 2.
	MaxIdleStreams int
	// TLS does the handshakes with servers; nil is none.
	TLS *certs.Store
	// Region is the own one, RegionOf says that of the server at an address: "" or a
	// nil function means the own one. Servers show it by their certificates.
	Region   string
	RegionOf func(addr string) string
	// Patience is how long a call that is not answered goes on before the other side
	// is asked whether it is there; zero means 5 s. A blocking query has its time on top.
	Patience time.Duration
	// AnswerWithin is how long it may then take to say so; zero means 3 s.
	AnswerWithin time.Duration
	// Mux are the settings of the sessions.
	Mux Mux
	Log *slog.Logger
}

// Pool holds one session to each server address that was called.
type Pool struct {
	cfg    PoolConfig
	log    *slog.Logger
	ctx    context.Context // ends with Close; the parent of what sessions serve
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	peers map[string]*peer
}

// NewPool makes an empty pool. The caller closes it.
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

// peer is one session, or the wait for it.
type peer struct {
	addr  string
	ready chan struct{} // closed once conn or err is set
	conn  *Conn
	wire  *dialed
	err   error
	timer *time.Timer // closes the idle session

	mu   sync.Mutex
	idle []*caller
	busy int
}

// Call makes one call to the server at addr. The end of ctx ends the call. A server
// that is not there any more, though its machine keeps the connection, ends it within
// seconds. A write whose reply was lost fails with nomad.ErrMaybeApplied.
func (p *Pool) Call(ctx context.Context, addr, method string, req, resp any) error {
	peer, c, err := p.acquire(ctx, addr, byteCalls)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	unwatch := p.watch(peer, p.cfg.Patience+blockTime(req))
	broken, err := c.call(method, req, resp)
	unwatch()
	if !stop() {
		broken = true
	}
	p.release(peer, c, broken, err)
	switch {
	case !broken:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return maybeApplied(req, peer.refused(err))
}

// maybeApplied says of a write whose reply was lost, or makes no sense, that it may have
// been done.
func maybeApplied(req any, err error) error {
	if r, ok := req.(Request); ok && r.Envelope().Write && !errors.Is(err, nomad.ErrUnsent) {
		return fmt.Errorf("%w: %w", nomad.ErrMaybeApplied, err)
	}
	return err
}

// blockTime is how long the answer of a request may take on purpose.
func blockTime(req any) time.Duration {
	q, ok := req.(interface{ Query() *nomad.QueryOptions })
	if !ok || q.Query().MinQueryIndex == 0 {
		return 0
	}
	wait := q.Query().BlockingTimeout()
	return wait + wait/nomad.JitterFraction
}

// Stream opens a streaming call. The caller sends the request and closes the stream;
// the end of ctx closes it too.
func (p *Pool) Stream(ctx context.Context, addr, method string) (*Stream, error) {
	peer, c, err := p.acquire(ctx, addr, byteStream)
	if err != nil {
		return nil, err
	}
	conn := &heldStream{ReadWriteCloser: sessionStream{c.conn, peer.conn.session}, ended: func() { p.release(peer, nil, false, nil) }}
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

// heldStream keeps its session in use until it is closed.
type heldStream struct {
	io.ReadWriteCloser
	once  sync.Once
	ended func()
}

// Close implements io.Closer.
func (h *heldStream) Close() error {
	err := h.ReadWriteCloser.Close()
	h.once.Do(h.ended)
	return err
}

// Check asks the server at addr whether it is there, when there is a session to it. If
// it does not answer within seconds, all calls to it end: a process that is stopped, or
// cut off, keeps its connections, and what waits for it would wait long.
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
		p.log.Warn("a server does not answer: closing its connection", "addr", addr)
		p.drop(pe)
	}
}

// watch checks the other side of a session once patience has passed, and from time to
// time after that, until stop is called.
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

// answers says whether the other side of the session is there.
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

// Close ends all sessions and waits for what they serve.
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

// acquire returns a stream to addr, one that was used before if it is for calls. A
// session that died unnoticed is replaced once: nothing was sent over it yet.
func (p *Pool) acquire(ctx context.Context, addr string, kind byte) (*peer, *caller, error) {
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
			return pe, newCaller(stream), nil
		}
		err = pe.refused(err)
		p.release(pe, nil, true, err)
		p.drop(pe)
		if !again {
			return nil, nil, err
		}
	}
}

// session returns the session to addr, a new one if there is none.
func (p *Pool) session(ctx context.Context, addr string) (*peer, error) {
	p.mu.Lock()
	if p.peers == nil {
		p.mu.Unlock()
		return nil, fmt.Errorf("%w: the pool is closed", nomad.ErrUnsent)
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
	conn, err := p.dial(p.ctx, pe.addr, p.regionOf(pe.addr), byteMux)
	if err == nil {
		pe.wire = conn
		var session *yamux.Session
		if session, err = yamux.Client(conn, p.cfg.Mux.config(p.log)); err == nil {
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
	for { // nobody serves here: refuse by closing
		s, err := pe.conn.session.AcceptStream()
		if err != nil {
			return
		}
		s.Close()
	}
}

// release gives a stream back, or closes it when it is broken or not needed.
func (p *Pool) release(pe *peer, c *caller, broken bool, err error) {
	pe.mu.Lock()
	pe.busy--
	keep := c != nil && !broken && len(pe.idle) < p.cfg.MaxIdleStreams
	if keep {
		pe.idle = append(pe.idle, c)
	}
	pe.mu.Unlock()
	pe.timer.Reset(p.cfg.IdleTimeout)
	if keep || c == nil {
		return
	}
	c.conn.Close()
	if broken && Lost(err) && pe.conn.session.IsClosed() {
		p.drop(pe)
	}
}

// reap closes a session that nothing used.
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

// drop forgets a session and closes it.
func (p *Pool) drop(pe *peer) {
	p.mu.Lock()
	if p.peers[pe.addr] == pe {
		delete(p.peers, pe.addr)
	}
	p.mu.Unlock()
	pe.close()
}

// take returns an unused stream of calls, nil when there is none or another kind is
// asked for; either way the session counts as used.
func (pe *peer) take(kind byte) *caller {
	pe.mu.Lock()
	defer pe.mu.Unlock()
	pe.busy++
	n := len(pe.idle)
	if n == 0 || kind != byteCalls {
		return nil
	}
	c := pe.idle[n-1]
	pe.idle = pe.idle[:n-1]
	return c
}

// refused names the reason when the server refused this agent's certificate.
func (pe *peer) refused(err error) error { return pe.wire.refused(err) }

func (pe *peer) close() {
	if pe.conn != nil {
		pe.timer.Stop()
		pe.conn.session.Close()
	}
}

// Lost says whether an error means that the connection ended during a call, so that it
// may have been taken or not.
func Lost(err error) bool {
	return errors.Is(err, nomad.ErrLost) || isEOF(err) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
