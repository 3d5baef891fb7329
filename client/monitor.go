package client

import (
	"context"
	"net/http"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/monitor"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// ofAgent is the subject of requests about an agent, such as for its log. agent returns the node and
// the server of a request. The agent of this process answers requests without either.
func ofAgent[Req any](c *Client, q acl.Question, agent func(*Req) (node, server string)) subject[Req] {
	s := ofNode(c, func(r *Req) string { node, _ := agent(r); return node }, q)
	s.mine = func(r *Req) bool {
		node, server := agent(r)
		return server == "" && (node == "" || node == c.id.ID)
	}
	return s
}

// monitorLog answers Agent.Monitor.
func (c *Client) monitorLog(ctx context.Context, _ *rpc.Call, req *message.MonitorRequest, s *rpc.Stream) error {
	return c.streamLog(ctx, s, func(ctx context.Context, to monitor.Sink) error { return c.monitor.Monitor(ctx, req, to) })
}

// exportLog answers Agent.MonitorExport.
func (c *Client) exportLog(ctx context.Context, _ *rpc.Call, req *message.MonitorExportRequest, s *rpc.Stream) error {
	return c.streamLog(ctx, s, func(ctx context.Context, to monitor.Sink) error { return c.monitor.Export(ctx, req, to) })
}

func (c *Client) streamLog(ctx context.Context, s *rpc.Stream, send func(context.Context, monitor.Sink) error) error {
	if c.monitor == nil {
		return nomad.Errorf(http.StatusNotImplemented, "this node has no log to stream")
	}
	ctx, cancel := s.UntilClosed(ctx)
	defer cancel()
	return ended(ctx, send(ctx, monitor.Sink(payloads(s))))
}
