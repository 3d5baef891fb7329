package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// call is one call or stream on its way through this server. Its steps are methods, in this order:
//
//	admit → route → authorize → decode → handle → recheck
//	           └──▶ decode → forward, if another server answers
//
// A small request is decoded before it is routed, because the audit log needs it. attempt authorizes
// the caller. Two other steps authorize a copy of it: decode, also on a server that only forwards,
// chooses the memory budget of a large request, and recheck finds rights that have changed.
type call struct {
	s      *Server
	m      Method
	body   *body
	stream *Stream // of the caller; nil unless the method streams
	caller *Call
	routed time.Time // start of the search for the server that answers

	region string  // the region that answers
	next   *Stream // to the server that answers a stream; nil for this server
	out    any     // the answer of a call
}

// run answers a call or stream that came over conn, on this server or through another. conn is nil for
// a caller in this process.
func (c *call) run(ctx context.Context, conn *Conn) (out any, err error) {
	defer c.body.end()
	begun := time.Now()
	defer func() { c.s.observe(c, time.Since(begun), err) }()
	var refused error
	c.caller, refused = c.admit(ctx, conn)
	invalid := c.decodeSmall(ctx)
	done, err := c.s.audit(c.m, c.caller, c.body.req, cmp.Or(refused, c.caller.refused))
	if err != nil {
		return nil, err
	}
	if err = cmp.Or(refused, invalid); err == nil {
		err = c.answer(ctx)
	}
	if err = done(err); err != nil {
		return nil, err
	}
	return c.out, nil
}

// observe notifies the observer of the end of a call.
func (s *Server) observe(c *call, took time.Duration, err error) {
	switch {
	case s.cfg.Observer == nil:
	case c.stream != nil:
		s.cfg.Observer.Streamed(c.m, c.caller, took, err)
	default:
		s.cfg.Observer.Called(c.m, c.caller, took, err)
	}
}

// audit starts the audit record of a call that came over a connection. refused is the
// authentication error of its caller. The error that done returns replaces err in the answer.
func (s *Server) audit(m Method, c *Call, req Request, refused error) (done func(err error) error, err error) {
	if s.cfg.Audit == nil || c.Conn == nil {
		return func(err error) error { return err }, nil
	}
	return s.cfg.Audit(m, c, req, refused)
}

// admit authenticates the caller. It keeps most authentication errors in the Call, so that the
// server that answers can report them.
func (c *call) admit(ctx context.Context, conn *Conn) (*Call, error) {
	env, rule := c.body.req.Envelope(), c.m.Rule
	caller := &Call{Method: c.m.Name, rule: rule, Conn: conn, Forwarded: env.Forwarded, Identity: &rbac.AuthenticatedIdentity{}}
	id, refused := c.s.cfg.Auth.Authenticate(ctx, env.AuthToken, rule, conn)
	if id != nil {
		caller.Identity = id
	}
	switch {
	case refused == nil:
		conn.authenticated(caller.Identity)
	case errors.Is(refused, certs.ErrPeer):
		return caller, refused // the next server would see this server's certificate
	case rule == Anonymous:
	case rule == NodeRegister && errors.Is(refused, apierror.ErrIdentityExpired):
		caller.Expired = true
	case rule.ofServers():
		return caller, refused // before forwarding
	default:
		caller.refused = refused
	}
	return caller, nil
}

// readmitAfter is how long finding the answering server may take before the caller is
// authenticated again.
const readmitAfter = 100 * time.Millisecond

// readmit authenticates the caller again before this server answers. The server may have waited
// to become leader and may now have tokens that it did not have before.
func (c *call) readmit(ctx context.Context) error {
	if c.caller.refused == nil && time.Since(c.routed) < readmitAfter {
		return nil
	}
	again, err := c.admit(ctx, c.caller.Conn)
	if err != nil {
		return err
	}
	*c.caller = *again // the audit log holds the pointer
	return again.refused
}

// answer finds the server that answers the call, and has it answered there.
func (c *call) answer(ctx context.Context) error {
	if c.m.Home != nil { // it may need any part of the request
		if err := c.decode(ctx); err != nil {
			return err
		}
	}
	env := c.s.envelope(c.m, c.body.req)
	c.region, c.routed = env.Region, time.Now()
	err := c.s.route(ctx, c.m, env, c.attempt)
	if err != nil || c.stream == nil {
		return err
	}
	if c.next != nil {
		return c.bridge(ctx)
	}
	return c.serve(ctx) // not repeated by route
}

// attempt makes the call at the server at addr, or at this one if addr is empty. For a stream it
// only opens the stream, or checks the caller.
func (c *call) attempt(ctx context.Context, addr string) error {
	if addr != "" {
		return c.forward(ctx, addr)
	}
	if err := c.readmit(ctx); err != nil {
		return err
	}
	if err := c.s.authorize(ctx, c.m, c.caller, c.body.req.Envelope()); err != nil {
		return err
	}
	if err := c.decode(ctx); err != nil || c.stream != nil {
		return err
	}
	return c.execute(ctx)
}

// authorize determines the caller's rights and refuses callers that may not make the call.
func (s *Server) authorize(ctx context.Context, m Method, c *Call, env message.Envelope) (err error) {
	if c.Access = new(Access); m.Rule != Token && m.Rule != Management {
		return nil
	}
	access, err := s.cfg.Auth.Access(ctx, c.Identity)
	if err != nil {
		return err
	}
	c.Access = access
	switch {
	case m.Rule == Management:
		return access.NeedManagement()
	case !m.Check.decidedByHandler():
		return m.Check.Ask(access, env)
	case len(m.Check.First) > 0:
		err = Check{Any: m.Check.First}.AskEarly(access, env)
	}
	access.expect(m.Check)
	return err
}

// handle runs the handler of a call on this server.
func (c *call) handle(ctx context.Context, caller *Call, req Request) (out any, err error) {
	if err := c.ready(req); err != nil {
		return nil, err
	}
	defer c.recovered(&err)
	ctx, wrote := recordWrites(ctx)
	out, err = c.m.call(ctx, caller, req)
	if err = wrote.asFinal(err); err == nil {
		err = c.checked(caller)
	}
	return out, err
}

// serve runs the handler of a stream on this server while its caller is authorized.
func (c *call) serve(ctx context.Context) (err error) {
	req := c.body.req
	if err := c.ready(req); err != nil {
		return err
	}
	c.caller.renew = c.recheck
	ctx, stop := c.stream.CloseWhenDenied(ctx, c.s.cfg.Recheck, func(ctx context.Context) error {
		_, err := c.recheck(ctx)
		return err
	})
	defer stop()
	defer c.recovered(&err)
	if err := c.m.serve(ctx, c.caller, req, c.stream); err != nil {
		return err
	}
	return c.checked(c.caller)
}

// ready reports whether the handler may run: the request is complete, and the precondition of the
// method is met.
func (c *call) ready(req Request) error {
	if !c.m.Rule.ofServers() || c.caller.ByCertificate() { // servers of this project send complete requests
		if err := codec.CheckNulls(req); err != nil {
			return err
		}
	}
	if c.m.requires == nil {
		return nil
	}
	return c.m.requires()
}

// checked refuses the answer of a handler that should have asked for the rights of its row but did
// not. Such a handler has a security bug.
func (c *call) checked(caller *Call) error {
	if c.m.Rule != Token || !c.m.Check.decidedByHandler() || caller.Access.asked.Load() {
		return nil
	}
	c.s.log.Error("method did not check its caller's rights", "method", c.m.Name, "needs", c.m.Check)
	return fmt.Errorf("internal error in %s: its access rule was not checked", c.m.Name)
}

// recovered turns a panic of a handler into an error of that call. A bug in one method must not
// stop the tasks and the elections of the agent.
func (c *call) recovered(err *error) {
	if p := recover(); p != nil {
		c.s.log.Error("handler panicked", "method", c.m.Name, "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("internal error in %s", c.m.Name)
	}
}
