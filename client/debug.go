package client

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// profile answers Agent.Profile.
func (c *Client) profile(ctx context.Context, call *rpc.Call, req *message.AgentPprofRequest) (*message.AgentPprofResponse, error) {
	if err := c.admitDebug(call); err != nil {
		return nil, err
	}
	out, err := c.profiles.Profile(ctx, req)
	if err == nil {
		out.AgentID = c.id.ID
	}
	return out, err
}

// hostData answers Agent.Host.
func (c *Client) hostData(_ context.Context, call *rpc.Call, _ *message.HostDataRequest) (*message.HostDataResponse, error) {
	if err := c.admitDebug(call); err != nil {
		return nil, err
	}
	out := c.profiles.Host()
	out.AgentID = c.id.ID
	return out, nil
}

// admitDebug requires enable_debug of this node if access control is disabled, also for calls that
// servers relay.
func (c *Client) admitDebug(call *rpc.Call) error {
	if c.cfg.Access.Enabled {
		return nil
	}
	return c.profiles.Admit(call.Identity.Claims != nil)
}
