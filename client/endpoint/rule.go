package endpoint

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/ticket"
)

// readmission is the interval at which the caller of an open stream is authorised again.
const readmission = time.Second

// method is a method of the node under two names. relayed is called by servers, which have
// authorised the caller. local is called by the agent of this process. The node answers requests
// about itself, even without servers, and forwards all others to the servers.
type method struct{ relayed, local rpc.Method }

// rule describes the object of a request and the rights it takes.
type rule[Req any] struct {
	s *Service
	// id returns the ID of the allocation or node.
	id func(*Req) string
	// local reports whether the object is on this node.
	local func(*Req) bool
	// check describes the rights that need checks.
	check string
	need  func(*rpc.Access, *Req) error
	// granted checks a ticket for rights that depend on facts only the node has. It may be nil.
	granted func(*ticket.Ticket, *Req) error
}

// ofAlloc is the rule of requests about an allocation, authorised by its namespace. A caller
// without the rights gets the same error as for an allocation that does not exist.
func ofAlloc[Req any](s *Service, id func(*Req) string, ops ...acl.NamespaceCapability) rule[Req] {
	rights := make([]string, len(ops))
	for i, op := range ops {
		rights[i] = string(op)
	}
	return rule[Req]{s: s, id: id, local: func(r *Req) bool { return s.cfg.Allocs.Has(id(r)) },
		check: fmt.Sprintf("ns:%s of the allocation", ops),
		need: func(a *rpc.Access, r *Req) error {
			namespace, err := s.cfg.Allocs.Namespace(id(r))
			switch {
			case a.Disabled:
				return err
			case err == nil && a.Need(acl.InNamespace(namespace, ops...)) == nil:
				return nil
			case id(r) == "" || a.IsManagement():
				return err
			}
			return apierror.Errorf(404, "%v%s", apierror.UnknownAlloc(id(r)), apierror.Hidden(rights...))
		}}
}

// ofNode is the rule of requests about the node.
func ofNode[Req any](s *Service, id func(*Req) string, q acl.Question) rule[Req] {
	return rule[Req]{s: s, id: id, local: func(r *Req) bool { return id(r) == s.cfg.Identity.ID },
		check: fmt.Sprintf("%s:%s", q.Kind, q.Rights),
		need:  func(a *rpc.Access, _ *Req) error { return a.Need(q) }}
}

// ofAgent is the rule of requests about an agent, such as for its log. agent returns the node and
// the server of a request. The agent of this process answers requests without either.
func ofAgent[Req any](s *Service, q acl.Question, agent func(*Req) (node, server string)) rule[Req] {
	out := ofNode(s, func(r *Req) string { node, _ := agent(r); return node }, q)
	out.local = func(r *Req) bool {
		node, server := agent(r)
		return server == "" && (node == "" || node == s.cfg.Identity.ID)
	}
	return out
}

// ofExec is the rule of exec requests. A privileged task, and one without file system
// isolation, gives full access to the node, so exec in it requires alloc-node-exec.
func ofExec(s *Service, h sessions) rule[message.AllocExecRequest] {
	out := ofAlloc(s, func(r *message.AllocExecRequest) string { return r.AllocID }, acl.AllocExec)
	inNamespace := out.need
	out.check += ", and ns:[alloc-node-exec] if its driver does not isolate tasks, or it is privileged"
	out.need = func(a *rpc.Access, r *message.AllocExecRequest) error {
		if err := inNamespace(a, r); err != nil {
			return err
		}
		namespace, unconfined, err := h.unconfined(r)
		if err != nil || !unconfined {
			return err
		}
		return a.Need(acl.InNamespace(namespace, acl.AllocNodeExec))
	}
	out.granted = func(t *ticket.Ticket, r *message.AllocExecRequest) error {
		namespace, unconfined, err := h.unconfined(r)
		if err != nil || !unconfined || t.Grants(string(acl.AllocNodeExec)) {
			return err
		}
		return rpc.Denied(acl.InNamespace(namespace, acl.AllocNodeExec))
	}
	return out
}

// admit authenticates the caller and checks the caller's rights. Every call is checked again.
func (r rule[Req]) admit(ctx context.Context, call *rpc.Call, env message.Envelope, req *Req) error {
	who, access, err := r.s.cfg.Access.Caller(ctx, env.AuthToken)
	if err != nil {
		return err
	}
	if err := r.need(access, req); err != nil {
		return err
	}
	call.Identity = who
	call.Access.MarkChecked()
	return nil
}

// admitTicket admits a call that servers relay with a ticket. The servers have authorised the
// caller, and they close the call when the caller loses the right.
func (r rule[Req]) admitTicket(ctx context.Context, call *rpc.Call, env message.Envelope, req *Req) error {
	t, err := r.s.cfg.Tickets.Verify(ctx, env.AuthToken, call.Method, r.id(req))
	if err != nil {
		return err
	}
	if r.granted != nil {
		if err := r.granted(t, req); err != nil {
			return err
		}
	}
	call.Identity = &rbac.AuthenticatedIdentity{ACLToken: &rbac.Token{AccessorID: t.Accessor, Type: t.Kind}}
	call.Access.MarkChecked()
	return nil
}

// admitRelayed admits a call of a server: by its ticket or by the caller's token. Without access control the servers have
// authorised the token.
func (r rule[Req]) admitRelayed(ctx context.Context, call *rpc.Call, env message.Envelope, req *Req) error {
	switch {
	case ticket.Is(env.AuthToken):
		return r.admitTicket(ctx, call, env, req)
	case r.s.cfg.AccessControl:
		return r.admit(ctx, call, env, req)
	}
	call.Access.MarkChecked()
	return nil
}

// handle returns the rows of a method of this node.
func handle[Req, Resp any, P interface {
	*Req
	rpc.Request
}](relayed, local string, r rule[Req], h func(context.Context, *rpc.Call, *Req) (*Resp, error)) method {
	relayedCall := func(ctx context.Context, call *rpc.Call, req *Req) (*Resp, error) {
		if err := r.admitRelayed(ctx, call, P(req).Envelope(), req); err != nil {
			return nil, err
		}
		return h(ctx, call, req)
	}
	localCall := func(ctx context.Context, call *rpc.Call, req *Req) (*Resp, error) {
		env := P(req).Envelope()
		if !r.s.inRegion(env) || !r.local(req) {
			call.Access.MarkChecked() // the servers authorise the call
			out := new(Resp)
			return out, r.s.cfg.Servers.Call(ctx, local, req, out)
		}
		if err := r.admit(ctx, call, env, req); err != nil {
			return nil, err
		}
		return h(ctx, call, req)
	}
	return method{
		relayed: rpc.Handle[Req, Resp, P](relayed, rpc.Token, rpc.Here, relayedCall).Needs(rpc.CheckedByHandler(r.check)),
		local:   rpc.Handle[Req, Resp, P](local, rpc.Token, rpc.Here, localCall).Needs(rpc.CheckedByHandler(r.check)),
	}
}

// handleStream is like handle, for a streaming method, whose two names are the same. A stream
// ends when its caller loses the right to it. Servers end those with a ticket.
func handleStream[Req any, P interface {
	*Req
	rpc.Request
}](name string, r rule[Req], h func(context.Context, *rpc.Call, *Req, *rpc.Stream) error) method {
	whileAllowed := func(ctx context.Context, call *rpc.Call, req *Req, st *rpc.Stream) error {
		env := P(req).Envelope()
		if err := r.admit(ctx, call, env, req); err != nil {
			return err
		}
		ctx, stop := st.CloseWhenDenied(ctx, readmission, func(ctx context.Context) error { return r.readmit(ctx, env, req) })
		defer stop()
		return h(ctx, call, req, st)
	}
	relayedCall := func(ctx context.Context, call *rpc.Call, req *Req, st *rpc.Stream) error {
		env := P(req).Envelope()
		if r.s.cfg.AccessControl && !ticket.Is(env.AuthToken) {
			return whileAllowed(ctx, call, req, st)
		}
		if err := r.admitRelayed(ctx, call, env, req); err != nil {
			return err
		}
		return h(ctx, call, req, st)
	}
	localCall := func(ctx context.Context, call *rpc.Call, req *Req, st *rpc.Stream) error {
		if r.s.inRegion(P(req).Envelope()) && r.local(req) {
			return whileAllowed(ctx, call, req, st)
		}
		call.Access.MarkChecked() // the servers authorise the call
		return r.s.forward(ctx, name, req, st)
	}
	return method{
		relayed: rpc.HandleStream[Req, P](name, rpc.Token, rpc.Here, relayedCall).Needs(rpc.CheckedByHandler(r.check)),
		local:   rpc.HandleStream[Req, P](name, rpc.Token, rpc.Here, localCall).Needs(rpc.CheckedByHandler(r.check)),
	}
}

// forward connects a stream of the agent to the servers.
func (s *Service) forward(ctx context.Context, name string, req any, st *rpc.Stream) error {
	next, err := s.cfg.Servers.Stream(ctx, name)
	if err != nil {
		return err
	}
	defer next.Close()
	if err := next.Encode(req); err != nil {
		return err
	}
	return rpc.Bridge(st, next)
}

// readmit returns apierror.ErrPermissionDenied if the caller has lost the right to a stream.
// Streams of a removed allocation end by themselves.
func (r rule[Req]) readmit(ctx context.Context, env message.Envelope, req *Req) error {
	_, access, err := r.s.cfg.Access.Caller(ctx, env.AuthToken)
	if err != nil || !r.local(req) {
		return err
	}
	if r.need(access, req) != nil {
		return apierror.ErrPermissionDenied
	}
	return nil
}

func (s *Service) inRegion(env message.Envelope) bool {
	return env.Region == "" || env.Region == s.cfg.Region
}
