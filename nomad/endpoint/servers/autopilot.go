package servers

import (
	"context"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
)

// AutopilotConfig returns the autopilot configuration.
func (s *Service) AutopilotConfig(context.Context, *rpc.Call, *message.GenericRequest) (*nomad.AutopilotConfig, error) {
	conf := s.Snapshot().AutopilotConfig(nil)
	if conf == nil {
		return nil, apierror.Errorf(404, "autopilot has no configuration: the leader writes one after its election")
	}
	return conf, nil
}

// SetAutopilotConfig changes the autopilot configuration and reports whether it did. With CAS the
// FSM decides.
func (s *Service) SetAutopilotConfig(ctx context.Context, _ *rpc.Call, req *message.AutopilotSetConfigRequest) (*bool, error) {
	if err := rules.Autopilot(&req.Config); err != nil {
		return nil, err
	}
	done, _, err := handler.ApplyFor[bool](ctx, s.Core, message.AutopilotRequestType,
		&message.AutopilotSetConfigRequest{Datacenter: req.Datacenter, Config: req.Config, CAS: req.CAS})
	if err != nil {
		return nil, err
	}
	return &done, nil
}

// Health returns the health of the servers, and warnings about their configuration.
func (s *Service) Health(context.Context, *rpc.Call, *message.GenericRequest) (*message.OperatorHealthReply, error) {
	if health := s.cfg.Autopilot.ServerHealth(); health != nil {
		out := *health
		if warning := s.cfg.Warning; warning != "" {
			out.Warnings = append(slices.Clone(out.Warnings), warning)
		}
		return &out, nil
	}
	return nil, apierror.Errorf(503, "this server has not checked the other servers yet: try again in a few seconds")
}

// Autopilot reports the health of the servers in the region.
type Autopilot interface {
	// ServerHealth returns nil on a server that is not the leader.
	ServerHealth() *message.OperatorHealthReply
}
