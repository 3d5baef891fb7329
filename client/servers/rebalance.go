package servers

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// Limits for moving to another server, as in Nomad 2.0.
const (
	rebalanceMin  = 5 * time.Minute
	rebalanceRate = 64 // reconnecting nodes per second and server
	pingWithin    = 3 * time.Second
)

// Run moves the client to another server from time to time until ctx ends. So restarted and
// added servers get their share of the clients.
func (r *Remote) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(r.rebalanceAfter()):
			r.rebalance(ctx)
		}
	}
}

// rebalanceAfter returns the time until the next move. It is long enough that all clients of a
// large cluster together make few new connections per second.
func (r *Remote) rebalanceAfter() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := max(rebalanceMin, time.Second*time.Duration(r.nodes)/time.Duration(rebalanceRate*max(1, len(r.addrs))))
	return wait + rand.N(wait/2)
}

// rebalance shuffles the servers, with one that answers at the head. The order does not change
// if none answers.
func (r *Remote) rebalance(ctx context.Context) {
	addrs := r.Addrs()
	if len(addrs) < 2 {
		return
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	for i, addr := range addrs {
		if r.ping(ctx, addr) {
			r.reorder(slices.Concat(addrs[i:], addrs[:i])) // those before it failed
			return
		}
	}
}

// ping reports whether a server answers.
func (r *Remote) ping(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, pingWithin)
	defer cancel()
	req := message.GenericRequest{QueryOptions: message.QueryOptions{Region: r.region, AllowStale: true}}
	err := r.pool.Call(ctx, addr, "Status.Ping", &req, nil)
	if err != nil {
		r.log.Debug("a server does not answer", "addr", addr, "err", err)
	}
	return err == nil
}

// reorder sets a new order, unless the set of servers has changed meanwhile.
func (r *Remote) reorder(addrs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sameSet(r.addrs, addrs) {
		r.addrs = addrs
	}
}
