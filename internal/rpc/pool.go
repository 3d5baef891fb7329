package rpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/open-nomad/open-nomad/internal/certs"
)

// errUnsent and errNoStream mean that the other side knows nothing of the call.
var (
	errUnsent   = errors.New("failed to get conn")
	errNoStream = errors.New("failed to start stream")
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
	Log      *slog.Logger
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

// Call makes one call to the server at addr. The end of ctx ends the call.
func (p *Pool) Call(ctx context.Context, addr, method string, req, resp any) error {
	peer, c, err := p.acquire(ctx, addr)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	broken, err := c.call(method, req, resp)
	if !stop() {
		broken = true
	}
	p.release(peer, c, broken, err)
	if broken && ctx.Err() != nil {
		return ctx.Err()
	}
	if broken {
		return peer.refused(err)
	}
	return err
}

// Stream opens a streaming call on a connection of its own. The caller sends the
// request and closes the stream; the end of ctx closes it too.
func (p *Pool) Stream(ctx context.Context, addr, method string) (*Stream, error) {
	conn, err := p.dial(ctx, addr, p.regionOf(addr), byteStream)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	s, err := openStream(conn, method)
	if err != nil {
		stop()
		err = conn.refused(err)
	}
	return s, err
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

// acquire returns a stream of calls to addr. A session that died unnoticed is
// replaced once: nothing was sent over it yet.
func (p *Pool) acquire(ctx context.Context, addr string) (*peer, *caller, error) {
	for again := true; ; again = false {
		pe, err := p.session(ctx, addr)
		if err != nil {
			return nil, nil, err
		}
		if c := pe.take(); c != nil && !pe.conn.session.IsClosed() {
			return pe, c, nil
		}
		stream, err := pe.conn.open(byteCalls)
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
		return nil, errors.New("rpc error: failed to get conn: the pool is closed")
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
		if session, err = yamux.Client(conn, muxConfig(p.log)); err == nil {
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
	keep := !broken && len(pe.idle) < p.cfg.MaxIdleStreams
	if keep {
		pe.idle = append(pe.idle, c)
	}
	pe.mu.Unlock()
	pe.timer.Reset(p.cfg.IdleTimeout)
	if keep || c == nil {
		return
	}
	c.conn.Close()
	if broken && endsSession(err) && pe.conn.session.IsClosed() {
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

// take returns an unused stream, nil when there is none; either way the session
// counts as used.
func (pe *peer) take() *caller {
	pe.mu.Lock()
	defer pe.mu.Unlock()
	pe.busy++
	n := len(pe.idle)
	if n == 0 {
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

// endsSession says whether an error may come from a dead session.
func endsSession(err error) bool { return isEOF(err) || errors.Is(err, io.ErrClosedPipe) }
