package token

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/client/state"
)

// end logs out tokens of an allocation that are not needed after a time. A restarted agent continues.
func (n *Node) end(alloc string, tokens []*state.ConsulToken, after time.Duration) {
	n.logouts.Add(after, n.ended(alloc, tokens)...)
}

// ended records the end of tokens, and returns it.
func (n *Node) ended(alloc string, tokens []*state.ConsulToken) (out []login.Ended) {
	for _, t := range tokens {
		one := *t
		if one.Ended.IsZero() {
			one.Ended = time.Now()
			n.cfg.Store.PutConsulTokenLater(alloc, &one)
		}
		out = append(out, login.Ended{Alloc: alloc, ID: one.Accessor, Since: one.Ended, Expires: one.Expires,
			Logout: func(ctx context.Context) error { return n.logout(ctx, one.Secret) },
			Drop:   func() { n.cfg.Store.DeleteConsulToken(alloc, one.Accessor) }})
	}
	return out
}

// Leftovers logs out the stored tokens of allocations that are not on this node, and those whose logout has begun. The latter
// may be replaced ones of a task that runs: see login.Leftover. It must be called before the first allocation runs.
func (n *Node) Leftovers(has func(alloc string) bool) {
	if n == nil {
		return
	}
	stored, err := n.cfg.Store.ConsulTokens("")
	if err != nil {
		n.cfg.Log.Warn("read the Consul tokens of the previous agent", "err", err)
	}
	for alloc, tokens := range stored {
		for _, t := range tokens {
			if wait, needless := login.Leftover(has(alloc), t.Ended); needless {
				n.end(alloc, []*state.ConsulToken{t}, wait)
			}
		}
	}
}

// Run logs out tokens until ctx ends. The next agent continues.
func (n *Node) Run(ctx context.Context) error { return n.logouts.Run(ctx) }

// down reports whether an error means that the next logout would fail too.
func down(err error) bool { return !failed(err, "").Answered }
