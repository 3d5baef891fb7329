package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/ticket"
)

// Target resolves the node of a request and checks the caller's rights.
type Target[Req any] struct {
	check rpc.Check
	find  func(s *Service, c *rpc.Call, req *Req) (errand, error)
}

// Alloc resolves the node of the allocation of a request. The caller needs one of the
// rights in the namespace of the allocation.
func Alloc[Req any](id func(*Req) string, ops ...acl.NamespaceCapability) Target[Req] {
	return Target[Req]{rpc.On("the allocation", acl.InNamespace("", ops...)), func(s *Service, c *rpc.Call, req *Req) (errand, error) {
		if id(req) == "" {
			return errand{}, apierror.ErrMissingAllocID
		}
		alloc := s.Snapshot().Alloc(nil, id(req))
		if err := handler.NeedAlloc(c, alloc, id(req), ops...); err != nil {
			return errand{}, err
		}
		return s.reach(c, alloc.NodeID, alloc.ID)
	}}
}

// Before returns the target with a check that runs before the request is decoded.
func (t Target[Req]) Before(first rpc.Check) Target[Req] {
	t.check = t.check.Before(first)
	return t
}

// Node resolves the node of a request. The caller needs the right q.
func Node[Req any](id func(*Req) string, q acl.Question) Target[Req] {
	return Target[Req]{rpc.Needs(q), func(s *Service, c *rpc.Call, req *Req) (errand, error) {
		if id(req) == "" {
			return errand{}, apierror.Errorf(400, "missing node ID")
		}
		return s.reach(c, id(req), id(req))
	}}
}

// errand is one call to a node.
type errand struct {
	*Service
	call   *rpc.Call
	node   *nomad.Node
	object string   // ID of the allocation or node of the call
	rights []string // rights of the caller beyond those that the method requires
}

// reach returns the errand for a node. It fails if the node is not in state.
func (s *Service) reach(c *rpc.Call, id, object string) (errand, error) {
	node := s.Snapshot().Node(nil, id)
	if node == nil {
		return errand{}, apierror.UnknownNode(id)
	}
	return errand{Service: s, call: c, node: node, object: object}, nil
}

// Call returns a method that the node handles under the name onNode.
func Call[Req, Resp any, P interface {
	*Req
	rpc.Request
}](s *Service, name, onNode string, to Target[Req]) rpc.Method {
	return rpc.Handle[Req, Resp, P](name, rpc.Token, rpc.Region, func(ctx context.Context, c *rpc.Call, req *Req) (*Resp, error) {
		e, err := to.find(s, c, req)
		if err != nil {
			return nil, err
		}
		return callNode[Req, Resp, P](ctx, e, onNode, req)
	}).Needs(to.check)
}

// callNode makes a call to a node, or to the server that the node is connected to.
func callNode[Req, Resp any, P interface {
	*Req
	rpc.Request
}](ctx context.Context, e errand, onNode string, req *Req) (*Resp, error) {
	out, err := new(Resp), apierror.ErrNoNodeConn
	if e.connected() {
		sent := *req
		if err := e.present(ctx, onNode, P(&sent)); err != nil {
			return nil, err
		}
		err = e.Nodes().NodeCall(ctx, e.node.ID, onNode, P(&sent), out)
	}
	if !errors.Is(err, apierror.ErrNoNodeConn) {
		return out, err
	}
	addr, err := e.Peers.NodeServer(ctx, e.node.ID)
	if err != nil {
		return nil, err
	}
	next := *req
	P(&next).MarkForwarded()
	return out, e.Peers.Call(ctx, addr, e.call.Method, P(&next), out)
}

// Stream returns a streaming method that the node handles.
func Stream[Req any, P interface {
	*Req
	rpc.Request
}](s *Service, name string, to Target[Req]) rpc.Method {
	return rpc.HandleStream[Req, P](name, rpc.Token, rpc.Region, func(ctx context.Context, c *rpc.Call, req *Req, from *rpc.Stream) error {
		e, err := to.find(s, c, req)
		if err != nil {
			return err
		}
		return bridge[Req, P](ctx, e, req, from)
	}).Needs(to.check)
}

// bridge opens a stream to a node, or to the server that the node is connected to, and
// connects it to the caller's stream. It ends with ctx, which is cancelled when the caller
// loses the right to the call.
func bridge[Req any, P interface {
	*Req
	rpc.Request
}](ctx context.Context, e errand, req *Req, from *rpc.Stream) error {
	var next *rpc.Stream
	method := e.call.Method
	sent, err := *req, apierror.ErrNoNodeConn
	if e.connected() {
		if err := e.present(ctx, method, P(&sent)); err != nil {
			return err
		}
		next, err = e.Nodes().NodeStream(ctx, e.node.ID, method)
	}
	if errors.Is(err, apierror.ErrNoNodeConn) {
		sent = *req
		next, err = e.peerStream(ctx, e.node.ID, method)
	}
	if err != nil {
		return err
	}
	defer next.Close()
	if err := next.Encode(P(&sent)); err != nil {
		return err
	}
	return rpc.Bridge(from, next)
}

// peerStream opens a stream to the server that the node is connected to.
func (s *Service) peerStream(ctx context.Context, node, name string) (*rpc.Stream, error) {
	addr, err := s.Peers.NodeServer(ctx, node)
	if err != nil {
		return nil, err
	}
	return s.Peers.Stream(ctx, addr, name)
}

// connected reports whether the node is connected to this server.
func (e errand) connected() bool {
	_, here := e.Nodes().NodeConn(e.node.ID)
	return here
}

// present replaces the caller's token in a request to a node by a ticket. It removes the
// token if access control is disabled. A node without support for tickets gets the token
// itself, if the operator allows it with TokensToNodes.
func (e errand) present(ctx context.Context, method string, req rpc.Request) error {
	switch {
	case e.call.Access.Disabled:
		return credential(req, "")
	case ticket.Accepted(e.node):
		ctx, cancel := e.Signing(ctx)
		defer cancel()
		who := audit.AuthOf(e.call.Identity)
		signed, err := e.Issuer.Ticket(ctx, ticket.Ticket{Node: e.node.ID, Method: method, Object: e.object, Rights: e.rights,
			Kind: who.Kind, Accessor: who.AccessorID, Alloc: who.AllocID}, e.Now())
		if err != nil {
			return err
		}
		return credential(req, signed)
	case req.Envelope().AuthToken == "", e.cfg.TokensToNodes:
		return nil
	}
	return apierror.Errorf(http.StatusConflict,
		"node %s does not accept tickets, so the call would send it your token: upgrade its agent to open-nomad, "+
			"or set server { relay_tokens_to_nodes = true }", e.node.ID)
}

// credential sets the auth token of a request.
func credential(req rpc.Request, token string) error {
	switch r := req.(type) {
	case interface{ Write() *message.WriteRequest }:
		r.Write().AuthToken = token
	case interface{ Query() *message.QueryOptions }:
		r.Query().AuthToken = token
	default:
		return fmt.Errorf("relay a %T: no token field", req)
	}
	return nil
}
