package relay

import (
	"context"
	"net"
	"net/http"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/monitor"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// errBothAgents is the error for a request that names a node and a server.
var errBothAgents = apierror.Errorf(http.StatusBadRequest, "Cannot target node and server simultaneously")

// Monitor streams the log of this server, of another server or of a node.
func (s *Service) Monitor(ctx context.Context, c *rpc.Call, req *message.MonitorRequest, from *rpc.Stream) error {
	here := func(ctx context.Context, to monitor.Sink) error { return s.cfg.Monitor.Monitor(ctx, req, to) }
	return monitored(ctx, s, c, agentOf{req.NodeID, req.ServerID}, req, from, here)
}

// MonitorExport streams stored log lines of this server, of another server or of a node.
func (s *Service) MonitorExport(ctx context.Context, c *rpc.Call, req *message.MonitorExportRequest, from *rpc.Stream) error {
	if err := monitor.CheckExport(req); err != nil {
		return err
	}
	here := func(ctx context.Context, to monitor.Sink) error { return s.cfg.Monitor.Export(ctx, req, to) }
	return monitored(ctx, s, c, agentOf{req.NodeID, req.ServerID}, req, from, here)
}

// agentOf names the agent of a request. Both fields are empty for this server.
type agentOf struct{ node, server string }

// monitored calls here if this server is the target. Otherwise it connects the caller's stream to
// the target.
func monitored[Req any, P interface {
	*Req
	rpc.Request
}](ctx context.Context, s *Service, c *rpc.Call, at agentOf, req *Req, from *rpc.Stream,
	here func(context.Context, monitor.Sink) error) error {
	switch {
	case at.node != "" && at.server != "":
		return errBothAgents
	case at.node != "":
		e, err := s.reach(at.node, at.node)
		if err != nil {
			return err
		}
		return bridge[Req, P](ctx, s, c, e, req, from)
	}
	addr, err := s.serverAddr(at.server)
	switch {
	case err != nil:
		return err
	case addr != "" && c.Forwarded:
		return apierror.Errorf(http.StatusConflict, "monitor server %q: it is not the server that it was forwarded to", at.server)
	case addr != "":
		return forward[Req, P](ctx, s, addr, c.Method, req, from)
	case s.cfg.Monitor == nil:
		return apierror.Errorf(http.StatusNotImplemented, "this server has no log to stream")
	}
	ctx, cancel := from.UntilClosed(ctx)
	defer cancel()
	err = here(ctx, func(b []byte) error { return from.Encode(&message.StreamErrWrapper{Payload: b}) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// serverAddr returns the RPC address of a server of the region, or "" for this server.
func (s *Service) serverAddr(name string) (string, error) {
	self := s.Cluster.Self()
	leader, leaderID := s.Cluster.Leader()
	switch {
	case name == "" || name == self.Name || name == self.Tags["id"]:
		return "", nil
	case name == "leader" && leaderID == s.Raft.ID():
		return "", nil
	case name == "leader" && leader == "":
		return "", apierror.ErrNoLeader
	case name == "leader":
		return leader, nil
	}
	for _, m := range s.Cluster.Members() {
		if m.Tags["region"] == s.Region && (m.Name == name || m.Tags["id"] == name) {
			return net.JoinHostPort(m.Addr.String(), m.Tags["port"]), nil
		}
	}
	return "", apierror.Errorf(http.StatusBadRequest, "unknown Nomad server %s", name)
}

// forward connects the caller's stream to another server of the region.
func forward[Req any, P interface {
	*Req
	rpc.Request
}](ctx context.Context, s *Service, addr, method string, req *Req, from *rpc.Stream) error {
	next, err := s.Peers.Stream(ctx, addr, method)
	if err != nil {
		return err
	}
	defer next.Close()
	sent := *req
	P(&sent).MarkForwarded()
	if err := next.Encode(P(&sent)); err != nil {
		return err
	}
	return rpc.Bridge(from, next)
}
