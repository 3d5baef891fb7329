package endpoint

import (
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
)

// target finds the node that a request is for.
type target[Req any] func(s *Service, req *Req) (node string, err error)

// allocTarget finds the node that runs the allocation of a request.
func allocTarget[Req any](id func(*Req) string) target[Req] {
	return func(s *Service, req *Req) (string, error) {
		if id(req) == "" {
			return "", nomad.ErrMissingAllocID
		}
		alloc := s.snapshot().Alloc(nil, id(req))
		if alloc == nil {
			return "", nomad.UnknownAlloc(id(req))
		}
		return s.reach(alloc.NodeID)
	}
}

// nodeTarget checks the node of a request.
func nodeTarget[Req any](id func(*Req) string) target[Req] {
	return func(s *Service, req *Req) (string, error) {
		if id(req) == "" {
			return "", nomad.Errorf(400, "missing node ID")
		}
		return s.reach(id(req))
	}
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
	return rpc.Handle[Req, Resp, P](name, rpc.Token, rpc.Region, func(ctx context.Context, _ *rpc.Call, req *Req) (*Resp, error) {
		node, err := to(s, req)
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
	}).Needs(rpc.Good)
}

// relayStream makes the row of a streaming method that the node answers.
func relayStream[Req any, P interface {
	*Req
	rpc.Request
}](s *Service, name string, to target[Req]) rpc.Method {
	return rpc.HandleStream[Req, P](name, rpc.Token, rpc.Region, func(ctx context.Context, _ *rpc.Call, req *Req, from *rpc.Stream) error {
		node, err := to(s, req)
		if err != nil {
			return err
		}
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
		rpc.Bridge(from, next)
		return nil
	}).Needs(rpc.Good)
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
