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
	return monitored(ctx, logCall{agentCall{s, c, req.NodeID, req.ServerID}, from}, req, here)
}

// MonitorExport streams stored log lines of this server, of another server or of a node.
func (s *Service) MonitorExport(ctx context.Context, c *rpc.Call, req *message.MonitorExportRequest, from *rpc.Stream) error {
	if err := monitor.CheckExport(req); err != nil {
		return err
	}
	here := func(ctx context.Context, to monitor.Sink) error { return s.cfg.Monitor.Export(ctx, req, to) }
	return monitored(ctx, logCall{agentCall{s, c, req.NodeID, req.ServerID}, from}, req, here)
}

// agentCall is a call to an agent: a node, or a server. Both are empty for this server.
type agentCall struct {
	*Service
	call         *rpc.Call
	node, server string
}

// logCall is a call for the log of an agent, with the stream of its caller.
type logCall struct {
	agentCall
	from *rpc.Stream
}

// monitored calls here if this server is the target. Otherwise it connects the caller's stream to
// the target.
func monitored[Req any, P interface {
	*Req
	rpc.Request
}](ctx context.Context, to logCall, req *Req, here func(context.Context, monitor.Sink) error) error {
	switch {
	case to.node != "" && to.server != "":
		return errBothAgents
	case to.node != "":
		e, err := to.reach(to.call, to.node, to.node)
		if err != nil {
			return err
		}
		return bridge[Req, P](ctx, e, req, to.from)
	}
	addr, err := to.serverAddr(to.server)
	switch {
	case err != nil:
		return err
	case addr != "" && to.call.Forwarded:
		return apierror.Errorf(http.StatusConflict, "monitor server %q: it is not the server that it was forwarded to", to.server)
	case addr != "":
		next, err := to.Peers.Stream(ctx, addr, to.call.Method)
		if err != nil {
			return err
		}
		return forward[Req, P](next, req, to.from)
	case to.cfg.Monitor == nil:
		return apierror.Errorf(http.StatusNotImplemented, "this server has no log to stream")
	}
	ctx, cancel := to.from.UntilClosed(ctx)
	defer cancel()
	err = here(ctx, func(b []byte) error { return to.from.Encode(&message.StreamErrWrapper{Payload: b}) })
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

// forward connects the caller's stream to next, the stream of another server of the region.
func forward[Req any, P interface {
	*Req
	rpc.Request
}](next *rpc.Stream, req *Req, from *rpc.Stream) error {
	defer next.Close()
	sent := *req
	P(&sent).MarkForwarded()
	if err := next.Encode(P(&sent)); err != nil {
		return err
	}
	return rpc.Bridge(from, next)
}
