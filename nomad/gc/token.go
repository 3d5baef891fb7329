package gc

import (
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// localTokens deletes tokens of this region that expired at least TokenAfter ago.
func (c *Collector) localTokens(ctx context.Context, s *sweep) error {
	return c.expiredTokens(ctx, s, "expired tokens", func(t *rbac.Token) bool { return !t.Global })
}

// globalTokens is localTokens for global tokens. The authoritative region deletes them, and the
// others replicate that.
func (c *Collector) globalTokens(ctx context.Context, s *sweep) error {
	if !c.cfg.Authoritative {
		return nil
	}
	return c.expiredTokens(ctx, s, "expired global tokens", func(t *rbac.Token) bool { return t.Global })
}

func (c *Collector) expiredTokens(ctx context.Context, s *sweep, what string, pass func(*rbac.Token) bool) error {
	if !c.cfg.Access {
		return nil
	}
	then := s.now
	if !s.force {
		then = then.Add(-c.cfg.TokenAfter)
	}
	var ids []string
	for t := range s.snap.ACLTokensExpired(then) {
		if pass(t) {
			ids = append(ids, t.AccessorID)
		}
	}
	for len(ids) > 0 {
		var batch []string
		batch, ids = split(ids, rbac.MaxExpiredBatchSize)
		err := c.inBatches(batch, what, func(batch []string) error {
			req := &message.ACLTokenDeleteRequest{AccessorIDs: batch, WriteRequest: c.write()}
			return c.cfg.RPC.Call(ctx, "ACL.DeleteTokens", req, &message.GenericResponse{})
		})
		if err != nil && !errors.Is(err, apierror.ErrTokenNotFound) { // deleted concurrently; the next run deletes the rest
			return err
		}
	}
	return nil
}

// oneTimeTokens deletes expired one-time tokens.
func (c *Collector) oneTimeTokens(ctx context.Context, s *sweep) error {
	if !c.cfg.Access {
		return nil
	}
	for range s.snap.OneTimeTokensExpired(s.now) {
		req := &message.OneTimeTokenExpireRequest{WriteRequest: c.write()}
		return c.cfg.RPC.Call(ctx, "ACL.ExpireOneTimeTokens", req, &message.GenericResponse{})
	}
	return nil
}
