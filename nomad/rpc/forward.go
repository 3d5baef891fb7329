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

// maxLosses is how often the loss of a connection lets a call be held for the whole time
// again: it went by while a server hung, not in looking for one.
const maxLosses = 3

// routed finds the server that answers and tries it. When it certainly did not
// take the call, another is looked for as long as calls are held: a leader that is
// gone is replaced within that time. A read whose connection was lost is made again,
// however late that came; a write that may have been done never is. What another server
// forwarded is for that server to make again; a stream it only carries.
func (s *Server) routed(ctx context.Context, m Method, env nomad.Envelope, try func(addr string) error) error {
	if s.cfg.Router == nil || m.Where == Here {
		return try("")
	}
	end, losses := time.Now().Add(s.cfg.Hold), 0
	for {
		addr, err := s.route(ctx, end, m.Where, env)
		if err != nil {
			return err
		}
		err = try(addr)
		if err == nil || env.Forwarded && !m.Stream || !untaken(err, addr, env) || addr == "" && losses > 0 && Lost(err) {
			return err
		}
		if Lost(err) && losses < maxLosses {
			end, losses = time.Now().Add(s.cfg.Hold), losses+1
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(holdPause):
		}
		if !time.Now().Before(end) {
			return err
		}
	}
}

// route asks for the server that answers until end.
func (s *Server) route(ctx context.Context, end time.Time, where Where, env nomad.Envelope) (addr string, err error) {
	hold, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	addr, err = s.cfg.Router.Route(hold, where, env)
	if err != nil {
		return "", cmp.Or(ctx.Err(), err)
	}
	return addr, nil
}

// envelope is what is read of a request, with the region that answers it.
func (s *Server) envelope(m Method, req Request) nomad.Envelope {
	env := req.Envelope()
	if s.cfg.Home != "" && m.Home != nil && m.Home(req) {
		env.Region = s.cfg.Home
	}
	return env
}

// untaken says whether a failed try did nothing, or may be done twice. A read that is
// answered here may have asked a node, and lost the connection to that: it is made again
// once, since the node comes back over another or is gone.
func untaken(err error, addr string, env nomad.Envelope) bool {
	if env.Write && errors.Is(err, nomad.ErrMaybeApplied) {
		return false
	}
	if errors.Is(err, nomad.ErrNoLeader) || errors.Is(err, nomad.ErrNotReady) {
		return true
	}
	if addr == "" {
		return !env.Write && errors.Is(err, nomad.ErrLost)
	}
	return errors.Is(err, nomad.ErrUnsent) || errors.Is(err, nomad.ErrNoStream) || !env.Write && Lost(err)
}

// forward makes the call at another server.
func (s *Server) forward(ctx context.Context, to hop, m Method, c *Call, req Request) (any, error) {
	out := m.response()
	next, err := s.passed(ctx, to, m, c, req)
	if err != nil {
		return nil, err
	}
	if err := s.cfg.Peers.Call(ctx, to.addr, m.Name, next, out); err != nil {
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

// hop is the next server of a request, and the region that answers it.
type hop struct{ addr, region string }

// passed returns a request as it is passed on: marked, in its region, and with this server's own
// token when this process calls what only servers may call. A call that was admitted by the
// certificate of its caller is not passed on: the next server would see the certificate of this one.
func (s *Server) passed(ctx context.Context, to hop, m Method, c *Call, req Request) (Request, error) {
	if c.ByCertificate() {
		return nil, nomad.Denied("forward %s: this server is not the leader, and a certificate counts only there; call the leader, or show the identity of a server", m.Name)
	}
	next := reflect.New(reflect.TypeOf(req).Elem())
	next.Elem().Set(reflect.ValueOf(req).Elem())
	copied := next.Interface().(Request) // the type is that of req
	copied.MarkForwarded()
	setRegion(copied, to.region)
	if !m.Rule.ofServers() || c.Conn != nil || s.cfg.Self == nil {
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

// setRegion names the region that answers a request.
func setRegion(req Request, region string) {
	switch r := req.(type) {
	case interface{ Write() *nomad.WriteRequest }:
		r.Write().Region = region
	case interface{ Query() *nomad.QueryOptions }:
		r.Query().Region = region
	}
}
