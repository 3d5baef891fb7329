package rpc

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// How long a call is held while no server can answer it, and the pause between
// two tries (compat/wire.md section 7).
const (
	holdTimeout = 5 * time.Second
	holdPause   = 25 * time.Millisecond
)

// routed finds the server that answers and tries it. When it certainly did not
// take the call, another is looked for as long as calls are held: a leader that is
// gone is replaced within that time. A call that may have been done is never
// tried again.
func (s *Server) routed(ctx context.Context, m Method, req Request, try func(addr string) error) error {
	if s.cfg.Router == nil || m.Where == Here {
		return try("")
	}
	env := req.Envelope()
	hung, err := s.held(ctx, m.Where, env, try)
	if hung { // the time went by while a server hung, not in looking for one
		_, err = s.held(ctx, m.Where, env, try)
	}
	return err
}

// held is routed within the time that calls are held. Hung says that a server used it
// up, and that another may be tried.
func (s *Server) held(ctx context.Context, where Where, env nomad.Envelope, try func(addr string) error) (hung bool, err error) {
	hold, cancel := context.WithTimeout(ctx, s.cfg.Hold)
	defer cancel()
	for {
		addr, err := s.cfg.Router.Route(hold, where, env)
		if err != nil {
			return false, cmp.Or(ctx.Err(), err)
		}
		err = try(addr)
		if err == nil || env.Forwarded || !untaken(err, addr, env) {
			return false, err
		}
		if hold.Err() != nil {
			return Lost(err), cmp.Or(ctx.Err(), err)
		}
		select {
		case <-hold.Done():
			return false, cmp.Or(ctx.Err(), err)
		case <-time.After(holdPause):
		}
	}
}

// untaken says whether a failed try did nothing, or may be done twice.
func untaken(err error, addr string, env nomad.Envelope) bool {
	if errors.Is(err, nomad.ErrNoLeader) || errors.Is(err, nomad.ErrNotReady) {
		return true
	}
	if addr == "" {
		return false
	}
	return errors.Is(err, nomad.ErrUnsent) || errors.Is(err, nomad.ErrNoStream) || !env.Write && Lost(err)
}

// forward makes the call at another server.
func (s *Server) forward(ctx context.Context, addr string, m Method, c *Call, req Request) (any, error) {
	out := m.response()
	next, err := s.passed(ctx, m, c, req)
	if err != nil {
		return nil, err
	}
	if err := s.cfg.Peers.Call(ctx, addr, m.Name, next, out); err != nil {
		if other := errors.Is(err, nomad.ErrNodeHeld) || errors.Is(err, nomad.ErrNodeSession); other && c.Conn != nil && !c.Forwarded {
			c.Conn.UnbindNode()
		}
		return out, err
	}
	if s.cfg.Bound != nil && c.Conn != nil && !c.Forwarded {
		if node := s.cfg.Bound(m.Name, req); node != "" {
			c.Conn.BindNode(node)
		}
	}
	return out, nil
}

// passed returns a request as it is passed on: marked, and with this server's own
// token when this process calls what only servers may call.
func (s *Server) passed(ctx context.Context, m Method, c *Call, req Request) (Request, error) {
	next := reflect.New(reflect.TypeOf(req).Elem())
	next.Elem().Set(reflect.ValueOf(req).Elem())
	copied := next.Interface().(Request) // the type is that of req
	copied.MarkForwarded()
	if m.Rule != ServerOnly || c.Conn != nil || s.cfg.Self == nil {
		return copied, nil
	}
	token, err := s.cfg.Self(ctx)
	if err != nil {
		return nil, err
	}
	switch r := copied.(type) {
	case interface{ Write() *nomad.WriteRequest }:
		r.Write().AuthToken = token
	case interface{ Query() *nomad.QueryOptions }:
		r.Query().AuthToken = token
	}
	return copied, nil
}
