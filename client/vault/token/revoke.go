package token

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/vault"
)

// end revokes tokens of an allocation after a time. A restarted agent continues.
func (n *Node) end(alloc string, after time.Duration, tokens ...*state.VaultToken) {
	n.logouts.Add(after, n.ended(alloc, tokens)...)
}

// ended records the end of tokens, and returns it.
func (n *Node) ended(alloc string, tokens []*state.VaultToken) (out []login.Ended) {
	for _, t := range tokens {
		one := *t
		if one.Ended.IsZero() {
			one.Ended = time.Now()
			n.cfg.Store.PutVaultTokenLater(alloc, &one)
		}
		e := login.Ended{Alloc: alloc, ID: one.ID, Since: one.Ended,
			Logout: func(ctx context.Context) error { return n.revoke(ctx, alloc, &one) },
			Drop:   func() { n.cfg.Store.DeleteVaultToken(alloc, one.ID) }}
		if one.Lease > 0 { // a renewal may have been in progress
			e.Expires = time.Now().Add(one.Lease)
		}
		out = append(out, e)
	}
	return out
}

// revoke deletes a token in Vault. A token that does not exist is revoked, and one that cannot be is left to its end.
func (n *Node) revoke(ctx context.Context, alloc string, t *state.VaultToken) error {
	if t.Batch {
		return nil
	}
	err := within(ctx, n.slots, requestTime, func(ctx context.Context) error {
		return n.cfg.Cluster.Client(t.Secret, t.Namespace).Auth().Token().RevokeSelfWithContext(ctx, "")
	})
	if err == nil {
		return nil
	}
	switch judge(err) {
	case gone:
		return nil
	case denied:
		n.cfg.Log.Warn("Vault does not let a token revoke itself, it remains until its end: give its role the policy default",
			"alloc", alloc, "task", t.Task, "accessor", t.Accessor)
		return nil
	}
	return err
}

// down reports whether an error means that the next revocation would fail too: Vault does not answer, or is sealed. Another
// status can be about one token.
func down(err error) bool {
	var status *api.ResponseError
	if errors.As(err, &status) {
		return status.StatusCode == http.StatusServiceUnavailable
	}
	return !vault.Answered(err)
}

// Leftovers revokes the stored tokens of allocations that are not on this node, and those whose revocation has begun. The
// latter may be replaced ones of a task that runs: see login.Leftover. It must be called before the first allocation runs.
func (n *Node) Leftovers(has func(alloc string) bool) {
	if n == nil {
		return
	}
	stored, err := n.cfg.Store.VaultTokens("")
	if err != nil {
		n.cfg.Log.Warn("read the Vault tokens of the previous agent", "err", err)
	}
	for alloc, tokens := range stored {
		for _, t := range tokens {
			if wait, needless := login.Leftover(has(alloc), t.Ended); needless {
				n.end(alloc, wait, t)
			}
		}
	}
}
