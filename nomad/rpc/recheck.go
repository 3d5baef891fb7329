package rpc

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// watched runs a method on this server. A blocking read of a user or a workload ends as soon as
// the caller loses the right to make it.
func (s *Server) watched(ctx context.Context, m Method, c *Call, req Request) (any, error) {
	if m.Rule != Token && m.Rule != Management || !waits(req) {
		return s.handle(ctx, m, c, req)
	}
	ctx, end := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.untilDenied(ctx, m, c, req.Envelope()); err != nil {
			end(err)
		}
	}()
	out, err := s.handle(ctx, m, c, req)
	end(nil)
	<-ended
	if cause := context.Cause(ctx); errors.Is(cause, nomad.ErrPermissionDenied) {
		return nil, cause
	}
	return out, err
}

// untilDenied returns an error as soon as the caller may no longer make the call, or nil when
// ctx ends. Most calls end before the first recheck.
func (s *Server) untilDenied(ctx context.Context, m Method, c *Call, env message.Envelope) error {
	wait := s.pause
	for {
		wait(ctx)
		if ctx.Err() != nil {
			return nil
		}
		wait = s.changes(c.Identity) // before the check, so that no change is missed
		now, err := s.stillGood(ctx, m, c, env)
		switch {
		case errors.Is(err, nomad.ErrPermissionDenied):
			return err
		case err != nil || now == nil: // undecided
			wait = s.pause
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
func (s *Server) changes(id *acls.AuthenticatedIdentity) func(context.Context) {
	if w, ok := s.cfg.Auth.(Watcher); ok {
		if wait := w.Watch(id); wait != nil {
			return wait
		}
	}
	return s.pause
}

// waits reports whether a request is a blocking query.
func waits(req Request) bool {
	q, ok := req.(interface{ Query() *message.QueryOptions })
	return ok && q.Query().MinQueryIndex > 0
}

// atOnce returns the request without blocking.
func atOnce(req Request) Request {
	if !waits(req) {
		return req
	}
	next := reflect.New(reflect.TypeOf(req).Elem())
	next.Elem().Set(reflect.ValueOf(req).Elem())
	copied := next.Interface().(Request) // the type is that of req
	copied.(interface{ Query() *message.QueryOptions }).Query().MinQueryIndex = 0
	return copied
}

// afterWait checks the caller of a blocking read again before the answer. It refuses a caller
// that may no longer read the answer. It runs the read again if the caller's rights have
// changed.
func (s *Server) afterWait(ctx context.Context, m Method, c *Call, req Request, out any) (any, error) {
	now, err := s.stillGood(ctx, m, c, req.Envelope())
	if err != nil || now == nil || now.Access.Rights == c.Access.Rights {
		return out, err
	}
	return s.handle(ctx, m, now, atOnce(req))
}

// stillGood authenticates and authorizes the caller of a running call again. It returns the new
// Call, or nil if nothing can have changed. A node whose token expired in the meantime remains
// authenticated.
func (s *Server) stillGood(ctx context.Context, m Method, before *Call, env message.Envelope) (*Call, error) {
	if m.Rule == Anonymous {
		return nil, nil
	}
	now := *before
	if env.AuthToken != "" {
		id, err := s.cfg.Auth.Authenticate(ctx, env.AuthToken, m.Rule, before.Conn)
		switch {
		case errors.Is(err, nomad.ErrPermissionDenied) && !(m.Rule == NodeOnly && errors.Is(err, nomad.ErrIdentityExpired)):
			return nil, err
		case err != nil:
			return nil, nil // undecided at the moment
		}
		now.Identity = id
	}
	if err := s.authorize(ctx, m, &now, env); err != nil {
		return nil, err
	}
	return &now, now.Access.again(before.Access)
}
