package client

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// allocRenderTemplates renders the templates of tasks again and applies their change modes.
func (c *Client) allocRenderTemplates(ctx context.Context, _ *rpc.Call, req *message.AllocTemplatesRequest) (*message.AllocTemplatesResponse, error) {
	h, err := c.allocs.findOf(req.AllocID, req.Task)
	if err != nil {
		return nil, err
	}
	tasks, err := h.runner.RenderTemplates(ctx, req.Task)
	return templatesOf(tasks, err)
}

// allocDiffTemplates renders the templates of tasks without writing them.
func (c *Client) allocDiffTemplates(ctx context.Context, _ *rpc.Call, req *message.AllocTemplatesRequest) (*message.AllocTemplatesResponse, error) {
	h, err := c.allocs.findOf(req.AllocID, req.Task)
	if err != nil {
		return nil, err
	}
	tasks, err := h.runner.DiffTemplates(ctx, req.Task)
	return templatesOf(tasks, err)
}

func templatesOf(tasks map[string][]*nomad.TemplateRender, err error) (*message.AllocTemplatesResponse, error) {
	if err != nil {
		return nil, idle(err)
	}
	return &message.AllocTemplatesResponse{Tasks: tasks}, nil
}
