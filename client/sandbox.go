package client

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// allocSandbox compares the sandboxes of an allocation's tasks with their declared policies.
func (c *Client) allocSandbox(ctx context.Context, _ *rpc.Call, req *message.AllocSandboxRequest) (*message.AllocSandboxResponse, error) {
	h, err := c.allocs.findOf(req.AllocID, req.Task)
	if err != nil {
		return nil, err
	}
	tasks, err := h.runner.Sandboxes(ctx, req.Task)
	if err != nil {
		return nil, idle(err)
	}
	return &message.AllocSandboxResponse{Tasks: tasks}, nil
}
