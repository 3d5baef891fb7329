package client

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// holdTimeout is how long a call goes on trying when no server answers it
// (compat/wire.md section 7).
const holdTimeout = 5 * time.Second

// errNoServers is returned when the client knows no server.
var errNoServers = errors.New("no servers")

// Servers carries calls to the servers: those of the network, or the one in this
// process.
type Servers interface {
	rpc.Caller
	Stream(ctx context.Context, method string) (*rpc.Stream, error)
}

// carrier makes calls to a server by its address.
type carrier interface {
	Call(ctx context.Context, addr, method string, req, resp any) error
	Stream(ctx context.Context, addr, method string) (*rpc.Stream, error)
}

// Remote reaches the servers of the network. The one at the head of the list is
// used until it fails; then it goes to the tail. From time to time another becomes the
// head (rebalance.go), so that clients spread over servers that came later.
type Remote struct {
	pool   carrier
	region string
	log    *slog.Logger

	mu    sync.Mutex
	seeds []string // as configured: the last resort
	addrs []string
	nodes int // of the whole region, as a server told
}

// NewRemote begins with the configured addresses.
func NewRemote(pool carrier, region string, seeds []string, log *slog.Logger) *Remote {
	return &Remote{pool: pool, region: region, seeds: seeds, addrs: slices.Clone(seeds), log: log}
}

// Addrs returns the known servers, the preferred one first.
func (r *Remote) Addrs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.addrs)
}

// SetAddrs replaces the known servers. When they are the same ones, the order
// stays; else it is made anew, so that clients spread over the servers.
func (r *Remote) SetAddrs(addrs []string) {
	if len(addrs) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if sameSet(r.addrs, addrs) {
		return
	}
	r.addrs = slices.Clone(addrs)
	rand.Shuffle(len(r.addrs), func(i, j int) { r.addrs[i], r.addrs[j] = r.addrs[j], r.addrs[i] })
	r.log.Debug("servers", "addrs", r.addrs)
}

// Replace makes addrs what is known of the servers, in place of what was configured.
// The next heartbeat learns the others from them.
func (r *Remote) Replace(addrs []string) {
	r.mu.Lock()
	r.seeds = slices.Clone(addrs)
	r.mu.Unlock()
	r.SetAddrs(addrs)
}

// learn takes over the servers that a server told of, and how many nodes share them.
// Configured ones stay in the list: they may be names that lead past a firewall.
func (r *Remote) learn(servers []*nomad.NodeServerInfo, nodes int) {
	var addrs []string
	for _, s := range servers {
		if s.RPCAdvertiseAddr != "" && !slices.Contains(addrs, s.RPCAdvertiseAddr) {
			addrs = append(addrs, s.RPCAdvertiseAddr)
		}
	}
	if len(addrs) == 0 {
		return
	}
	r.mu.Lock()
	r.nodes = nodes
	seeds := r.seeds
	r.mu.Unlock()
	for _, s := range seeds {
		if !slices.Contains(addrs, s) {
			addrs = append(addrs, s)
		}
	}
	r.SetAddrs(addrs)
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// head returns the preferred server.
func (r *Remote) head() (addr string, count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.addrs) == 0 {
		return "", 0
	}
	return r.addrs[0], len(r.addrs)
}

// failed moves a server that did not answer to the end of the list.
func (r *Remote) failed(addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.addrs, addr); i >= 0 {
		r.addrs = append(slices.Delete(r.addrs, i, i+1), addr)
	}
}

// Call makes one call. It is made again at another server when it cannot have
// been taken, or when it only reads. A server that failed is the last to be asked next
// time, whether this call is made again or not.
func (r *Remote) Call(ctx context.Context, method string, req, resp any) error {
	deadline := time.Now().Add(holdTimeout + blockTime(req))
	back := backoff{min: 20 * time.Millisecond, max: 500 * time.Millisecond}
	for tries := 1; ; tries++ {
		addr, count := r.head()
		if count == 0 {
			return errNoServers
		}
		err := r.pool.Call(ctx, addr, method, req, resp)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			r.failed(addr) // it may hang: the next call is for another
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		if again(err, req) || rpc.Lost(err) {
			r.failed(addr)
		}
		if !again(err, req) {
			return err
		}
		if tries%count != 0 {
			continue
		}
		if time.Now().After(deadline) || back.wait(ctx) != nil {
			return r.unreached(err)
		}
	}
}

// Stream opens a stream to the first server that takes it.
func (r *Remote) Stream(ctx context.Context, method string) (*rpc.Stream, error) {
	err := errNoServers
	for _, addr := range r.Addrs() {
		var s *rpc.Stream
		if s, err = r.pool.Stream(ctx, addr, method); err == nil {
			return s, nil
		}
		if !unsent(err) && !rpc.Lost(err) {
			return nil, err
		}
		r.failed(addr)
	}
	return nil, r.unreached(err)
}

// Unreachable says that no server took a call; callers see addresses only.
type Unreachable struct {
	Addrs []string // those that were tried
	cause error
}

func (e *Unreachable) Error() string {
	text := "no servers: no server can be reached at " + strings.Join(e.Addrs, ", ")
	var errno syscall.Errno
	var tls *rpc.HandshakeError
	switch {
	case errors.As(e.cause, &tls):
		text += " (" + tls.Error() + ")"
	case errors.As(e.cause, &errno):
		text += " (" + errno.Error() + ")"
	}
	return text
}

func (e *Unreachable) Unwrap() error { return e.cause }

// unreached names the servers when err says that none of them took the call.
func (r *Remote) unreached(err error) error {
	if err == errNoServers || !unsent(err) {
		return err
	}
	r.log.Debug("no server took a call", "err", err)
	addrs := r.Addrs()
	slices.Sort(addrs)
	return &Unreachable{Addrs: addrs, cause: err}
}

// again says whether a failed call may be made once more.
func again(err error, req any) bool {
	r, ok := req.(rpc.Request)
	read := ok && !r.Envelope().Write
	if !read && errors.Is(err, nomad.ErrMaybeApplied) {
		return false
	}
	if errors.Is(err, nomad.ErrNoLeader) || errors.Is(err, nomad.ErrNotReady) || unsent(err) {
		return true
	}
	return read && rpc.Lost(err)
}

// unsent says whether no server took the call: that one could not be reached, or that
// it could not reach the leader.
func unsent(err error) bool {
	return errors.Is(err, nomad.ErrUnsent) || errors.Is(err, nomad.ErrNoStream)
}

// blockTime is how long a server may take to answer a request on purpose.
func blockTime(req any) time.Duration {
	q, ok := req.(interface{ Query() *nomad.QueryOptions })
	if !ok || q.Query().MinQueryIndex == 0 {
		return 0
	}
	return q.Query().BlockingTimeout()
}

// backoff is a growing, jittered wait.
type backoff struct {
	min, max time.Duration
	next     time.Duration
}

// wait sleeps between half and all of the next duration.
func (b *backoff) wait(ctx context.Context) error {
	b.next = min(max(b.min, 2*b.next), b.max)
	t := time.NewTimer(b.next/2 + rand.N(b.next/2+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// reset begins anew after a success.
func (b *backoff) reset() { b.next = 0 }
