package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// How long a call waits while no server can answer it, and the interval between attempts, as in
// Nomad 2.0.
const (
	holdTimeout = 5 * time.Second
	holdPause   = 25 * time.Millisecond
)

// maxLosses is how often a lost connection may restart the hold time of a call. The hold time is for
// finding a server. Without the restart, a call to a server that hung would have none left.
const maxLosses = 3

// routed finds the server that answers and calls try with its address. If that server certainly
// did not accept the call, routed looks for another until the hold time ends. A new leader is
// usually elected within that time. routed repeats a read whose connection was lost, however
// late the loss is noticed. It never repeats a write that may have been applied. Requests that
// another server forwarded are repeated by that server; streams are not repeated.
func (s *Server) routed(ctx context.Context, m Method, env message.Envelope, try func(addr string) error) error {
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

// route waits until end for the address of the server that answers.
func (s *Server) route(ctx context.Context, end time.Time, where Where, env message.Envelope) (addr string, err error) {
	hold, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	addr, err = s.cfg.Router.Route(hold, where, env)
	if err != nil {
		return "", cmp.Or(ctx.Err(), err)
	}
	return addr, nil
}

// envelope returns the envelope of a request, with the region that answers it.
func (s *Server) envelope(m Method, req Request) message.Envelope {
	env := req.Envelope()
	if s.cfg.Home != "" && m.Home != nil && m.Home(req) {
		env.Region = s.cfg.Home
	}
	return env
}

// untaken reports whether a failed attempt did nothing or may safely be repeated. A read on
// this server may have lost the connection to a node. It is repeated once, because the node
// reconnects or is gone.
func untaken(err error, addr string, env message.Envelope) bool {
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

// forward sends the call to another server.
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
		return out, absent(err, "server at "+to.addr)
	}
	if s.cfg.Bound != nil && c.Conn != nil && !c.Forwarded {
		if node := s.cfg.Bound(m.Name, req); node != "" {
			c.Conn.BindNode(node)
		}
	}
	return out, nil
}

// absent adds to the error about an unknown method which agent does not have the method.
func absent(err error, agent string) error {
	if !errors.Is(err, nomad.ErrNoMethod) && !errors.Is(err, nomad.ErrUnknownMethod) {
		return err
	}
	return fmt.Errorf("%w: the %s runs Nomad or an earlier version of open-nomad, which does not have this method", err, agent)
}

// hop is the next server of a request, and the region that answers the request.
type hop struct{ addr, region string }

// passed returns the request to forward: marked as forwarded, with its region, and with this
// server's token if an in-process caller uses a method for servers only. A call that was
// authenticated by a certificate is not forwarded, because the next server would see the
// certificate of this server.
func (s *Server) passed(ctx context.Context, to hop, m Method, c *Call, req Request) (Request, error) {
	if c.ByCertificate() {
		return nil, nomad.Denied("forward %s: this server is not the leader, and a TLS certificate authenticates a call only at the leader; call the leader or send a server's identity token", m.Name)
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
	case interface{ Write() *message.WriteRequest }:
		r.Write().AuthToken = token
	case interface{ Query() *message.QueryOptions }:
		r.Query().AuthToken = token
	case interface{ Caller() *message.NodeCall }:
		r.Caller().AuthToken = token
	}
	return copied, nil
}

// setRegion sets the region that answers a request.
func setRegion(req Request, region string) {
	switch r := req.(type) {
	case interface{ Write() *message.WriteRequest }:
		r.Write().Region = region
	case interface{ Query() *message.QueryOptions }:
		r.Query().Region = region
	case interface{ Caller() *message.NodeCall }:
		r.Caller().Region = region
	}
}
