package csivolumes

import (
	"context"
	"strings"

	"github.com/open-nomad/open-nomad/nomad/csicall"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// ToController returns the row of a method of ClientCSI that relays a call of another server to a controller plugin on a node
// which is connected to this one. A request without a node, which servers of other builds send, may be answered by any instance.
func ToController[Req, Resp any, P interface {
	*Req
	csicall.ControllerRequest
}](s *Service, method string) rpc.Method {
	relay := func(ctx context.Context, _ *rpc.Call, req *Req) (*Resp, error) {
		sent, out := *req, new(Resp)
		p := P(&sent)
		if node := p.Controller().ControllerNodeID; node != "" {
			return out, s.toNode(ctx, nodeCall{node, method, p}, out)
		}
		return out, s.cfg.Plugins.Controller(ctx, strings.TrimPrefix(method, "Controller"), p, out)
	}
	return rpc.Handle[Req, Resp, P]("ClientCSI."+method, rpc.ServerOnly, rpc.Here, relay)
}

// ToNode is ToController for a method of a node plugin.
func ToNode[Req, Resp any, P interface {
	*Req
	rpc.ServerCall
}](s *Service, method string, node func(P) string) rpc.Method {
	relay := func(ctx context.Context, _ *rpc.Call, req *Req) (*Resp, error) {
		sent, out := *req, new(Resp)
		return out, s.toNode(ctx, nodeCall{node(&sent), method, P(&sent)}, out)
	}
	return rpc.Handle[Req, Resp, P]("ClientCSI."+method, rpc.ServerOnly, rpc.Here, relay)
}

// nodeCall is a call of a method of CSI to a node.
type nodeCall struct {
	node, method string
	req          rpc.ServerCall
}

// toNode makes a call to a node that is connected to this server. The node does not get the token of the calling server.
func (s *Service) toNode(ctx context.Context, c nodeCall, resp any) error {
	*c.req.Caller() = message.NodeCall{Region: s.Region}
	return s.Nodes().NodeCall(ctx, c.node, "CSI."+c.method, c.req, resp)
}
