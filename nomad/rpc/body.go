package rpc

import (
	"context"
	"net/http"
	"sync"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// body is the request of one call. A request from a connection is decoded in two steps: first
// the options, which every request has, and the rest after the caller is authorized.
//
//	read ──▶ options ──▶ authenticate ──▶ check rights ──▶ charge ──▶ decode
//
// A small request is decoded before the rights are checked, because the audit log needs it.
type body struct {
	req  Request // only the options are set until raw is nil
	raw  *[]byte
	in   *wire.Intake // charged for raw
	cost int64        // upper bound of the memory of the decoded request
	paid *wire.Budget // the budget that was charged for cost
}

// Usual sizes, so that a buffer seldom grows.
const (
	usualHeader  = 64
	usualRequest = 1 << 10
)

// bodies holds reusable read buffers. A decoded request never refers to its buffer.
var bodies = sync.Pool{New: func() any {
	b := make([]byte, 0, usualRequest)
	return &b
}}

// decoded returns the body of an in-process call.
func decoded(req Request) *body { return &body{req: req} }

// received returns the body of a call that was read through in, with its options decoded.
func received(m Method, raw *[]byte, in *wire.Intake) (*body, error) {
	b := &body{req: m.request(), raw: raw, in: in, cost: m.size.Cost(in, len(*raw))}
	var err error
	switch r := b.req.(type) {
	case interface{ Write() *message.WriteRequest }:
		err = codec.Decode(*raw, r.Write())
	case interface{ Query() *message.QueryOptions }:
		err = codec.Decode(*raw, r.Query())
	case interface{ Caller() *message.NodeCall }:
		err = codec.Decode(*raw, r.Caller())
	}
	if err != nil {
		return nil, undecodable(m, err)
	}
	return b, nil
}

func undecodable(m Method, err error) error {
	return apierror.Errorf(http.StatusBadRequest, "decode the request of %s: %v", m.Name, err)
}

// free reports whether the decoded request is too small to be charged for.
func (b *body) free() bool { return b.raw == nil || b.cost <= freeCost }

// decode decodes the complete request. It refuses options that differ from those that were
// authorized.
func (b *body) decode(m Method) error {
	if b.raw == nil {
		return nil
	}
	req := m.request()
	err := codec.Decode(*b.raw, req)
	if err != nil {
		return undecodable(m, err)
	}
	if req.Envelope() != b.req.Envelope() {
		return apierror.Errorf(http.StatusBadRequest, "decode the request of %s: duplicate options", m.Name)
	}
	b.req = req
	b.drop()
	return nil
}

// drop returns the buffer to the pool.
func (b *body) drop() {
	if b.raw == nil {
		return
	}
	if cap(*b.raw) <= wire.ReadStep {
		bodies.Put(b.raw)
	}
	b.raw = nil
	b.in.Release()
}

// end releases the buffer and the charge at the end of the call.
func (b *body) end() {
	b.drop()
	if b.paid != nil {
		b.paid.Release(b.cost)
		b.paid = nil
	}
}

// decodeSmall decodes a request that is too small to be charged for, and every request of a
// stream, which is charged only during the decoding.
func (c *call) decodeSmall(ctx context.Context) error {
	switch {
	case c.body.free():
		return c.body.decode(c.m)
	case c.stream == nil:
		return nil
	}
	defer c.body.end()
	if err := c.charge(ctx, c.s.unauthorized); err != nil {
		return err
	}
	return c.body.decode(c.m)
}

// decode decodes the request of a call. Callers without authorization, or whose authorization has
// not been checked yet, share a small memory budget.
func (c *call) decode(ctx context.Context) error {
	if c.body.free() || c.m.Rule.ofServers() {
		return c.body.decode(c.m)
	}
	budget := c.s.authorized
	if err := c.entitled(ctx); err != nil {
		if budget = c.s.unauthorized; c.body.cost > budget.Each() {
			return err
		}
	}
	if err := c.charge(ctx, budget); err != nil {
		return err
	}
	return c.body.decode(c.m)
}

// charge charges the decoded request to a budget until the end of the call.
func (c *call) charge(ctx context.Context, budget *wire.Budget) error {
	if err := budget.Take(ctx, c.body.cost, c.s.cfg.Hold); err != nil {
		return err
	}
	c.body.paid = budget
	return nil
}

// entitled refuses a large request of a caller that is not authorized for the call.
func (c *call) entitled(ctx context.Context) error {
	if c.caller.refused != nil {
		return c.caller.refused
	}
	probe := *c.caller
	if err := c.s.authorize(ctx, c.m, &probe, c.body.req.Envelope()); err != nil {
		return err
	}
	switch c.m.Rule {
	case NodeOnly, Management:
		return nil
	case NodeRegister, NodeStatus:
		if proven(c.caller.Identity) {
			return nil
		}
	case Token:
		if len(probe.Access.needs) > 0 || !c.caller.Conn.accepted() {
			return nil
		}
	}
	return wire.TooCostly(c.body.cost, c.s.unauthorized.Each())
}

// proven reports whether a credential identified the caller.
func proven(id *rbac.AuthenticatedIdentity) bool {
	return id.ClientID != "" || id.Claims != nil || id.ACLToken != nil && id.ACLToken.AccessorID != rbac.AnonymousAccessor
}
