package relay

import (
	"context"
	"net/http"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Profile returns a profile of this server, of another server or of a node.
func (s *Service) Profile(ctx context.Context, c *rpc.Call, req *message.AgentPprofRequest) (*message.AgentPprofResponse, error) {
	return debugged(ctx, agentCall{s, c, req.NodeID, req.ServerID}, req, func() (*message.AgentPprofResponse, error) {
		out, err := s.cfg.Profiles.Profile(ctx, req)
		if err == nil {
			out.AgentID = s.Cluster.Self().Name
		}
		return out, err
	})
}

// Host returns facts about the host of this server, of another server or of a node.
func (s *Service) Host(ctx context.Context, c *rpc.Call, req *message.HostDataRequest) (*message.HostDataResponse, error) {
	return debugged(ctx, agentCall{s, c, req.NodeID, req.ServerID}, req, func() (*message.HostDataResponse, error) {
		out := s.cfg.Profiles.Host()
		out.AgentID = s.Cluster.Self().Name
		return out, nil
	})
}

// debugged calls here if this server is the target. Otherwise it makes the call to the target. If
// access control is disabled, each server on the way requires its own enable_debug.
func debugged[Req, Resp any, P interface {
	*Req
	rpc.Request
}](ctx context.Context, to agentCall, req *Req, here func() (*Resp, error)) (*Resp, error) {
	c := to.call
	if c.Access.Disabled {
		if err := to.cfg.Profiles.Admit(c.Identity.Claims != nil); err != nil {
			return nil, err
		}
	}
	switch {
	case to.node != "" && to.server != "":
		return nil, errBothAgents
	case to.node != "":
		e, err := to.reach(c, to.node, to.node)
		if err != nil {
			return nil, err
		}
		return callNode[Req, Resp, P](ctx, e, c.Method, req)
	}
	addr, err := to.serverAddr(to.server)
	switch {
	case err != nil && c.Method == "Agent.Profile":
		return nil, apierror.Errorf(http.StatusInternalServerError, "%v", err) // the status of Nomad
	case err != nil:
		return nil, err
	case addr == "":
		return here()
	case c.Forwarded:
		return nil, apierror.Errorf(http.StatusConflict, "server %q: it is not the server that the call was forwarded to", to.server)
	}
	sent, out := *req, new(Resp)
	P(&sent).MarkForwarded()
	return out, to.Peers.Call(ctx, addr, c.Method, P(&sent), out)
}
