package client

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/ticket"
)

// readmission is the interval at which the caller of an open stream is authorised again.
const readmission = time.Second

// answered is a method of the node under two names. relayed is called by servers, which have
// authorised the caller. own is called by the agent of this process. The node answers requests
// about itself, even without servers, and forwards all others to the servers.
type answered struct{ relayed, own rpc.Method }

// subject describes the object of a request and the rights it takes.
type subject[Req any] struct {
	c *Client
	// id returns the ID of the allocation or node.
	id func(*Req) string
	// mine reports whether the object is on this node.
	mine func(*Req) bool
	// check describes the rights that need checks.
	check string
	need  func(*rpc.Access, *Req) error
	// granted checks a ticket for rights that depend on facts only the node has. It may be nil.
	granted func(*ticket.Ticket, *Req) error
}

// ofAlloc is the subject of requests about an allocation, authorised by its namespace. A caller
// without the rights gets the same error as for an allocation that does not exist.
func ofAlloc[Req any](c *Client, id func(*Req) string, ops ...acl.NamespaceCapability) subject[Req] {
	rights := make([]string, len(ops))
	for i, op := range ops {
		rights[i] = string(op)
	}
	return subject[Req]{c: c, id: id, mine: func(r *Req) bool { return c.HasAlloc(id(r)) },
		check: fmt.Sprintf("ns:%s of the allocation", ops),
		need: func(a *rpc.Access, r *Req) error {
			namespace, err := c.allocs.namespace(id(r))
			switch {
			case a.Disabled:
				return err
			case err == nil && a.Need(acl.InNamespace(namespace, ops...)) == nil:
				return nil
			case id(r) == "" || a.IsManagement():
				return err
			}
			return nomad.Errorf(404, "%v%s", nomad.UnknownAlloc(id(r)), nomad.Hidden(rights...))
		}}
}

// ofNode is the subject of requests about the node.
func ofNode[Req any](c *Client, id func(*Req) string, q acl.Question) subject[Req] {
	return subject[Req]{c: c, id: id, mine: func(r *Req) bool { return id(r) == c.id.ID },
		check: fmt.Sprintf("%s:%s", q.Kind, q.Rights),
		need:  func(a *rpc.Access, _ *Req) error { return a.Need(q) }}
}

// admit authenticates the caller and checks the caller's rights. Every call is checked again.
func (s subject[Req]) admit(ctx context.Context, call *rpc.Call, env message.Envelope, req *Req) error {
	who, access, err := s.c.access.Caller(ctx, env.AuthToken)
	if err != nil {
		return err
	}
	if err := s.need(access, req); err != nil {
		return err
	}
	call.Identity = who
	call.Access.MarkChecked()
	return nil
}

// admitTicket admits a call that servers relay with a ticket. The servers have authorised the
// caller, and they close the call when the caller loses the right.
func (s subject[Req]) admitTicket(ctx context.Context, call *rpc.Call, env message.Envelope, req *Req) error {
	t, err := s.c.tickets.Verify(ctx, env.AuthToken, call.Method, s.id(req))
	if err != nil {
		return err
	}
	if s.granted != nil {
		if err := s.granted(t, req); err != nil {
			return err
		}
	}
	call.Identity = &nomad.AuthenticatedIdentity{ACLToken: &nomad.ACLToken{AccessorID: t.Accessor, Type: t.Kind}}
	call.Access.MarkChecked()
	return nil
}

// answer returns the rows of a method of this node.
func answer[Req, Resp any, P interface {
	*Req
	rpc.Request
}](relayed, own string, s subject[Req], here func(context.Context, *rpc.Call, *Req) (*Resp, error)) answered {
	admitted := func(ctx context.Context, call *rpc.Call, req *Req) (*Resp, error) {
		if err := s.admit(ctx, call, P(req).Envelope(), req); err != nil {
			return nil, err
		}
		return here(ctx, call, req)
	}
	return answered{
		relayed: rpc.Handle[Req, Resp, P](relayed, rpc.Token, rpc.Here, func(ctx context.Context, call *rpc.Call, req *Req) (*Resp, error) {
			switch env := P(req).Envelope(); {
			case ticket.Is(env.AuthToken):
				if err := s.admitTicket(ctx, call, env, req); err != nil {
					return nil, err
				}
				return here(ctx, call, req)
			case s.c.cfg.Access.Enabled:
				return admitted(ctx, call, req)
			}
			call.Access.MarkChecked() // the servers have authorised the token
			return here(ctx, call, req)
		}).Needs(rpc.CheckedByHandler(s.check)),
		own: rpc.Handle[Req, Resp, P](own, rpc.Token, rpc.Here, func(ctx context.Context, call *rpc.Call, req *Req) (*Resp, error) {
			if s.c.inRegion(P(req).Envelope()) && s.mine(req) {
				return admitted(ctx, call, req)
			}
			call.Access.MarkChecked() // the servers authorise the call
			out := new(Resp)
			return out, s.c.servers.Call(ctx, own, req, out)
		}).Needs(rpc.CheckedByHandler(s.check)),
	}
}

// answerStream is like answer, for a streaming method, whose two names are the same. A stream
// ends when its caller loses the right to it.
func answerStream[Req any, P interface {
	*Req
	rpc.Request
}](name string, s subject[Req], here func(context.Context, *rpc.Call, *Req, *rpc.Stream) error) answered {
	admitted := func(ctx context.Context, call *rpc.Call, req *Req, st *rpc.Stream) error {
		env := P(req).Envelope()
		if err := s.admit(ctx, call, env, req); err != nil {
			return err
		}
		ctx, stop := st.CloseWhenDenied(ctx, readmission, func(ctx context.Context) error { return s.readmit(ctx, env, req) })
		defer stop()
		return here(ctx, call, req, st)
	}
	return answered{
		relayed: rpc.HandleStream[Req, P](name, rpc.Token, rpc.Here, func(ctx context.Context, call *rpc.Call, req *Req, st *rpc.Stream) error {
			switch env := P(req).Envelope(); {
			case ticket.Is(env.AuthToken):
				if err := s.admitTicket(ctx, call, env, req); err != nil {
					return err
				}
				return here(ctx, call, req, st)
			case s.c.cfg.Access.Enabled:
				return admitted(ctx, call, req, st)
			}
			call.Access.MarkChecked() // the servers have authorised the token
			return here(ctx, call, req, st)
		}).Needs(rpc.CheckedByHandler(s.check)),
		own: rpc.HandleStream[Req, P](name, rpc.Token, rpc.Here, func(ctx context.Context, call *rpc.Call, req *Req, st *rpc.Stream) error {
			if s.c.inRegion(P(req).Envelope()) && s.mine(req) {
				return admitted(ctx, call, req, st)
			}
			call.Access.MarkChecked() // the servers authorise the call
			next, err := s.c.servers.Stream(ctx, name)
			if err != nil {
				return err
			}
			defer next.Close()
			if err := next.Encode(req); err != nil {
				return err
			}
			return rpc.Bridge(st, next)
		}).Needs(rpc.CheckedByHandler(s.check)),
	}
}

// readmit returns nomad.ErrPermissionDenied if the caller has lost the right to a stream.
// Streams of a removed allocation end by themselves.
func (s subject[Req]) readmit(ctx context.Context, env message.Envelope, req *Req) error {
	_, access, err := s.c.access.Caller(ctx, env.AuthToken)
	if err != nil || !s.mine(req) {
		return err
	}
	if s.need(access, req) != nil {
		return nomad.ErrPermissionDenied
	}
	return nil
}

func (c *Client) inRegion(env message.Envelope) bool {
	return env.Region == "" || env.Region == c.cfg.Region
}

// Access returns the identity of a token's bearer and its rights on this node.
func (c *Client) Access(ctx context.Context, token string) (*nomad.AuthenticatedIdentity, *rpc.Access, error) {
	return c.access.Caller(ctx, token)
}
