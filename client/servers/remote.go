// Package servers selects the server that a node calls. It keeps the list of servers, retries calls, and moves the node to
// another server from time to time, so that nodes spread over restarted and added servers.
//
//	first of the list ──call fails──▶ end of the list
//	        ▲                               │
//	        └──────── those before it fail ─┘
//
// A call is retried only if no server can have applied it, or if it only reads. While no server accepts it, a call is
// retried for 5 s. The package adds no token and knows no method except Status.Ping. Its one goroutine is Remote.Run.
package servers

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

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// holdTimeout is how long a call is retried when no server answers, as in Nomad 2.0.
const holdTimeout = 5 * time.Second

// ErrNone is returned when the node has no server address.
var ErrNone = errors.New("no servers")

// Caller makes calls to the servers, over the network or in this process.
type Caller interface {
	message.Caller
	Stream(ctx context.Context, method string) (*rpc.Stream, error)
}

// Pool makes calls to a server by address.
type Pool interface {
	Call(ctx context.Context, addr, method string, req, resp any) error
	Stream(ctx context.Context, addr, method string) (*rpc.Stream, error)
}

// Remote reaches the servers over the network. It uses the first server of the list until it
// fails, then moves it to the end. Run selects another from time to time.
type Remote struct {
	pool   Pool
	region string
	log    *slog.Logger

	mu    sync.Mutex
	seeds []string // as configured, always kept in the list
	addrs []string
	nodes int // in the region, as reported by a server
}

// New returns a Remote with the configured addresses.
func New(pool Pool, region string, seeds []string, log *slog.Logger) *Remote {
	return &Remote{pool: pool, region: region, seeds: seeds, addrs: slices.Clone(seeds), log: log}
}

// Addrs returns the known servers, the preferred one first.
func (r *Remote) Addrs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.addrs)
}

// SetAddrs replaces the known servers. If the set is unchanged, the order stays; else it is
// shuffled, so that clients spread over the servers.
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

// Replace replaces both the known and the configured servers. The next heartbeat adds the other
// servers of the region.
func (r *Remote) Replace(addrs []string) {
	r.mu.Lock()
	r.seeds = slices.Clone(addrs)
	r.mu.Unlock()
	r.SetAddrs(addrs)
}

// Found records servers that were found when none of the known ones answered. The configured servers stay in the list.
func (r *Remote) Found(addrs []string) {
	r.mu.Lock()
	seeds := r.seeds
	r.mu.Unlock()
	r.SetAddrs(withSeeds(addrs, seeds))
}

// Learn records the servers and the number of nodes that a server reported. Configured
// addresses stay in the list, because they may be the only ones reachable through a firewall.
func (r *Remote) Learn(servers []*nomad.NodeServerInfo, nodes int) {
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
	r.SetAddrs(withSeeds(addrs, seeds))
}

// withSeeds returns addrs with the seeds that it lacks.
func withSeeds(addrs, seeds []string) []string {
	out := slices.Clone(addrs)
	for _, s := range seeds {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// head returns the preferred server and the number of servers.
func (r *Remote) head() (addr string, count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.addrs) == 0 {
		return "", 0
	}
	return r.addrs[0], len(r.addrs)
}

// failed moves a server to the end of the list.
func (r *Remote) failed(addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.addrs, addr); i >= 0 {
		r.addrs = append(slices.Delete(r.addrs, i, i+1), addr)
	}
}

// Call makes one call. It retries at another server if the call cannot have been applied, or if
// it only reads. A server that failed moves to the end of the list in any case.
func (r *Remote) Call(ctx context.Context, method string, req, resp any) error {
	deadline := time.Now().Add(holdTimeout + blockTime(req))
	back := backoff.Backoff{Min: 20 * time.Millisecond, Max: 500 * time.Millisecond}
	for tries := 1; ; tries++ {
		addr, count := r.head()
		if count == 0 {
			return ErrNone
		}
		err := r.pool.Call(ctx, addr, method, req, resp)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			r.failed(addr) // it may hang: the next call uses another
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		if retryable(err, req) || rpc.Lost(err) {
			r.failed(addr)
		}
		if !retryable(err, req) {
			return err
		}
		if tries%count != 0 {
			continue
		}
		if time.Now().After(deadline) || back.WaitJitter(ctx) != nil {
			return r.unreached(err)
		}
	}
}

// Stream opens a stream to the first server that accepts it.
func (r *Remote) Stream(ctx context.Context, method string) (*rpc.Stream, error) {
	err := ErrNone
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

// Unreachable means that no server accepted a call. Its text holds addresses only.
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

// unreached returns an Unreachable if err means that no server accepted the call, else err.
func (r *Remote) unreached(err error) error {
	if err == ErrNone || !unsent(err) {
		return err
	}
	r.log.Debug("no server accepted a call", "err", err)
	addrs := r.Addrs()
	slices.Sort(addrs)
	return &Unreachable{Addrs: addrs, cause: err}
}

// retryable reports whether a failed call may be repeated.
func retryable(err error, req any) bool {
	r, ok := req.(rpc.Request)
	read := ok && !r.Envelope().Write
	if !read && errors.Is(err, apierror.ErrMaybeApplied) {
		return false
	}
	if errors.Is(err, apierror.ErrNoLeader) || errors.Is(err, apierror.ErrNotReady) || unsent(err) {
		return true
	}
	return read && rpc.Lost(err)
}

// unsent reports whether no server accepted the call: it was unreachable, or it could not reach
// the leader.
func unsent(err error) bool {
	return errors.Is(err, apierror.ErrUnsent) || errors.Is(err, apierror.ErrNoStream)
}

// blockTime returns how long a blocking query may take.
func blockTime(req any) time.Duration {
	q, ok := req.(interface{ Query() *message.QueryOptions })
	if !ok || q.Query().MinQueryIndex == 0 {
		return 0
	}
	return q.Query().BlockingTimeout()
}
