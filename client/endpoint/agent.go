package endpoint

import (
	"context"
	"net/http"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/monitor"
	"github.com/open-nomad/open-nomad/nomad/profile"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// agent handles requests about the log and the profiles of this agent.
type agent struct {
	nodeID        string
	accessControl bool
	monitor       *monitor.Source // nil refuses to stream the log
	profiles      *profile.Source // nil refuses them
}

// monitorLog answers Agent.Monitor.
func (h agent) monitorLog(ctx context.Context, _ *rpc.Call, req *message.MonitorRequest, s *rpc.Stream) error {
	return h.streamLog(ctx, s, func(ctx context.Context, to monitor.Sink) error { return h.monitor.Monitor(ctx, req, to) })
}

// exportLog answers Agent.MonitorExport.
func (h agent) exportLog(ctx context.Context, _ *rpc.Call, req *message.MonitorExportRequest, s *rpc.Stream) error {
	return h.streamLog(ctx, s, func(ctx context.Context, to monitor.Sink) error { return h.monitor.Export(ctx, req, to) })
}

func (h agent) streamLog(ctx context.Context, s *rpc.Stream, send func(context.Context, monitor.Sink) error) error {
	if h.monitor == nil {
		return apierror.Errorf(http.StatusNotImplemented, "this node has no log to stream")
	}
	ctx, cancel := s.UntilClosed(ctx)
	defer cancel()
	return ended(ctx, send(ctx, monitor.Sink(payloads(s))))
}

// profile answers Agent.Profile.
func (h agent) profile(ctx context.Context, call *rpc.Call, req *message.AgentPprofRequest) (*message.AgentPprofResponse, error) {
	if err := h.admit(call); err != nil {
		return nil, err
	}
	out, err := h.profiles.Profile(ctx, req)
	if err == nil {
		out.AgentID = h.nodeID
	}
	return out, err
}

// hostData answers Agent.Host.
func (h agent) hostData(_ context.Context, call *rpc.Call, _ *message.HostDataRequest) (*message.HostDataResponse, error) {
	if err := h.admit(call); err != nil {
		return nil, err
	}
	out := h.profiles.Host()
	out.AgentID = h.nodeID
	return out, nil
}

// admit requires enable_debug of this node if access control is disabled, also for calls that
// servers relay.
func (h agent) admit(call *rpc.Call) error {
	if h.accessControl {
		return nil
	}
	return h.profiles.Admit(call.Identity.Claims != nil)
}
