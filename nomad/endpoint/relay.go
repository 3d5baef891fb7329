package endpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
)

// target finds the node that a request is for, and is what its caller needs.
type target[Req any] struct {
	check rpc.Check
	find  func(s *Service, c *rpc.Call, req *Req) (node string, err error)
}

// allocTarget finds the node that runs the allocation of a request. The caller needs one
// of the rights in the namespace of the allocation.
func allocTarget[Req any](id func(*Req) string, ops ...acl.NamespaceCapability) target[Req] {
	return target[Req]{rpc.Asked(fmt.Sprintf("ns:%s of the allocation", ops)), func(s *Service, c *rpc.Call, req *Req) (string, error) {
		if id(req) == "" {
			return "", nomad.ErrMissingAllocID
		}
		alloc := s.snapshot().Alloc(nil, id(req))
		if err := needAlloc(c, alloc, id(req), ops...); err != nil {
			return "", err
		}
		return s.reach(alloc.NodeID)
	}}
}

// nodeTarget checks the node of a request.
func nodeTarget[Req any](id func(*Req) string, q acl.Question) target[Req] {
	return target[Req]{rpc.Needs(q), func(s *Service, _ *rpc.Call, req *Req) (string, error) {
		if id(req) == "" {
			return "", nomad.Errorf(400, "missing node ID")
		}
		return s.reach(id(req))
	}}
}

// reach refuses nodes that state does not know.
func (s *Service) reach(node string) (string, error) {
	if s.snapshot().Node(nil, node) == nil {
		return "", nomad.UnknownNode(node)
	}
	return node, nil
}

// relay makes the row of a method that the node answers, under another name.
func relay[Req, Resp any, P interface {
	*Req
	rpc.Request
}](s *Service, name, onNode string, to target[Req]) rpc.Method {
	return rpc.Handle[Req, Resp, P](name, rpc.Token, rpc.Region, func(ctx context.Context, c *rpc.Call, req *Req) (*Resp, error) {
		node, err := to.find(s, c, req)
		if err != nil {
			return nil, err
		}
		out := new(Resp)
		err = s.cfg.Nodes().NodeCall(ctx, node, onNode, P(req), out)
		if !errors.Is(err, nomad.ErrNoNodeConn) {
			return out, err
		}
		addr, err := s.cfg.Peers.NodeServer(ctx, node)
		if err != nil {
			return nil, err
		}
		next := *req
		P(&next).MarkForwarded()
		return out, s.cfg.Peers.Call(ctx, addr, name, P(&next), out)
	}).Needs(to.check)
}

// relayStream makes the row of a streaming method that the node answers.
func relayStream[Req any, P interface {
	*Req
	rpc.Request
}](s *Service, name string, to target[Req]) rpc.Method {
	return rpc.HandleStream[Req, P](name, rpc.Token, rpc.Region, func(ctx context.Context, c *rpc.Call, req *Req, from *rpc.Stream) error {
		node, err := to.find(s, c, req)
		if err != nil {
			return err
		}
		return s.bridge(ctx, node, name, req, from)
	}).Needs(to.check)
}

// bridge makes a streaming call of a node, and connects it to that of the caller.
func (s *Service) bridge(ctx context.Context, node, name string, req any, from *rpc.Stream) error {
	next, err := s.cfg.Nodes().NodeStream(ctx, node, name)
	if errors.Is(err, nomad.ErrNoNodeConn) {
		next, err = s.peerStream(ctx, node, name)
	}
	if err != nil {
		return err
	}
	defer next.Close()
	if err := next.Encode(req); err != nil {
		return err
	}
	return rpc.Bridge(from, next)
}

// peerStream opens a stream to the server that the node is connected to.
func (s *Service) peerStream(ctx context.Context, node, name string) (*rpc.Stream, error) {
	addr, err := s.cfg.Peers.NodeServer(ctx, node)
	if err != nil {
		return nil, err
	}
	return s.cfg.Peers.Stream(ctx, addr, name)
}

// BoundNode says which node's connection a call came over that another server
// answered: that server has checked that the node itself calls.
func BoundNode(method string, req rpc.Request) string {
	switch r := req.(type) {
	case *nomad.NodeRegisterRequest:
		if r.Node != nil {
			return r.Node.ID
		}
	case *nomad.NodeUpdateStatusRequest:
		return r.NodeID
	case *nomad.NodeSpecificRequest:
		if method == "Node.GetClientAllocs" {
			return r.NodeID
		}
	}
	return ""
}
