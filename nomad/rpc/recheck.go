package rpc

import (
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// execute runs a call on this server. If it took long, the caller of a read is checked again before
// the answer. The read runs again if the caller's rights have changed.
func (c *call) execute(ctx context.Context) (err error) {
	req := c.body.req
	begun := time.Now()
	if c.out, err = c.whilePermitted(ctx, req); err != nil || req.Envelope().Write || time.Since(begun) < c.s.cfg.Recheck {
		return err
	}
	now, err := c.recheck(ctx)
	if err != nil || now == nil || now.Access.same(c.caller.Access) {
		return err
	}
	if blocking(req) {
		req = c.m.clone(req)
		req.(interface{ Query() *message.QueryOptions }).Query().MinQueryIndex = 0
	}
	c.out, err = c.handle(ctx, now, req)
	return err
}

// whilePermitted runs the handler of a call. A blocking read of a user or a workload ends as soon as
// the caller loses the right to make it.
func (c *call) whilePermitted(ctx context.Context, req Request) (any, error) {
	if c.m.Rule != Token && c.m.Rule != Management || !blocking(req) {
		return c.handle(ctx, c.caller, req)
	}
	ctx, end := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.untilDenied(ctx); err != nil {
			end(err)
		}
	}()
	out, err := c.handle(ctx, c.caller, req)
	end(nil)
	<-ended
	if cause := context.Cause(ctx); errors.Is(cause, apierror.ErrPermissionDenied) {
		return nil, cause
	}
	return out, err
}

// untilDenied returns an error as soon as the caller may no longer make the call, or nil when
// ctx ends. Most calls end before the first recheck.
func (c *call) untilDenied(ctx context.Context) error {
	wait := c.s.pause
	for {
		wait(ctx)
		if ctx.Err() != nil {
			return nil
		}
		wait = c.s.changes(c.caller.Identity) // before the check, so that no change is missed
		now, err := c.recheck(ctx)
		switch {
		case errors.Is(err, apierror.ErrPermissionDenied):
			return err
		case err != nil || now == nil: // undecided
			wait = c.s.pause
		}
	}
}

// pause waits for the recheck interval of callers without a Watcher.
func (s *Server) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(s.cfg.Recheck):
	}
}

// changes returns a function that waits for a change of the caller's rights.
func (s *Server) changes(id *rbac.AuthenticatedIdentity) func(context.Context) {
	if w, ok := s.cfg.Auth.(Watcher); ok {
		if wait := w.Watch(id); wait != nil {
			return wait
		}
	}
	return s.pause
}

// blocking reports whether a request is a blocking query.
func blocking(req Request) bool {
	q, ok := req.(interface{ Query() *message.QueryOptions })
	return ok && q.Query().MinQueryIndex > 0
}

// recheck authenticates and authorizes the caller of a running call again. It returns the new
// Call, or nil if nothing can have changed. A node whose token expired in the meantime remains
// authenticated.
func (c *call) recheck(ctx context.Context) (*Call, error) {
	if c.m.Rule == Anonymous {
		return nil, nil
	}
	now, env := *c.caller, c.body.req.Envelope()
	if env.AuthToken != "" {
		id, err := c.s.cfg.Auth.Authenticate(ctx, env.AuthToken, c.m.Rule, now.Conn)
		switch {
		case errors.Is(err, apierror.ErrPermissionDenied) && !(c.m.Rule == NodeOnly && errors.Is(err, apierror.ErrIdentityExpired)):
			return nil, err
		case err != nil:
			return nil, nil // undecided at the moment
		}
		now.Identity = id
	}
	if err := c.s.authorize(ctx, c.m, &now, env); err != nil {
		return nil, err
	}
	return &now, now.Access.repeat(c.caller.Access)
}
