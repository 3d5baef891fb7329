package rpc

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
)

// watched runs a method here. A read that waits for changes on behalf of a person or a
// workload ends as soon as that one may no longer make it.
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

// untilDenied returns the error once a caller may no longer make a call, nil when ctx ended.
// Most calls are over before the first look.
func (s *Server) untilDenied(ctx context.Context, m Method, c *Call, env nomad.Envelope) error {
	wait := s.pause
	for {
		wait(ctx)
		if ctx.Err() != nil {
			return nil
		}
		wait = s.changes(c.Identity) // before the look, so that no change is missed
		now, err := s.stillGood(ctx, m, c, env)
		switch {
		case errors.Is(err, nomad.ErrPermissionDenied):
			return err
		case err != nil || now == nil: // not decided
			wait = s.pause
		}
	}
}

// pause waits as long as a caller without a Watcher is not asked about.
func (s *Server) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(s.cfg.Recheck):
	}
}

// changes returns the wait for a change of what a caller may do.
func (s *Server) changes(id *acls.AuthenticatedIdentity) func(context.Context) {
	if w, ok := s.cfg.Auth.(Watcher); ok {
		if wait := w.Watch(id); wait != nil {
			return wait
		}
	}
	return s.pause
}

// waits says whether a request is a read that waits for changes.
func waits(req Request) bool {
	q, ok := req.(interface{ Query() *nomad.QueryOptions })
	return ok && q.Query().MinQueryIndex > 0
}

// atOnce is a read that does not wait.
func atOnce(req Request) Request {
	if !waits(req) {
		return req
	}
	next := reflect.New(reflect.TypeOf(req).Elem())
	next.Elem().Set(reflect.ValueOf(req).Elem())
	copied := next.Interface().(Request) // the type is that of req
	copied.(interface{ Query() *nomad.QueryOptions }).Query().MinQueryIndex = 0
	return copied
}

// afterWait looks once more at the caller of a read that took its time. Who may no
// longer have the answer is refused; who may do more or less than before gets another.
func (s *Server) afterWait(ctx context.Context, m Method, c *Call, req Request, out any) (any, error) {
	now, err := s.stillGood(ctx, m, c, req.Envelope())
	if err != nil || now == nil || now.Access.Rights == c.Access.Rights {
		return out, err
	}
	return s.handle(ctx, m, now, atOnce(req))
}

// stillGood refuses who may no longer make a call that was begun before, and returns
// the call as it would be begun now, nil when nothing can have changed. A node whose
// token ended meanwhile is still the node that it was.
func (s *Server) stillGood(ctx context.Context, m Method, before *Call, env nomad.Envelope) (*Call, error) {
	if m.Rule == Anonymous {
		return nil, nil
	}
	now := *before
	if env.AuthToken != "" {
		id, err := s.cfg.Auth.Authenticate(ctx, env.AuthToken, m.Rule, before.Conn)
		switch {
		case errors.Is(err, nomad.ErrPermissionDenied) && !(m.Rule == NodeOnly && errors.Is(err, ErrExpired)):
			return nil, err
		case err != nil:
			return nil, nil // nobody can say now
		}
		now.Identity = id
	}
	if err := s.authorize(ctx, m, &now, env); err != nil {
		return nil, err
	}
	return &now, now.Access.again(before.Access)
}
