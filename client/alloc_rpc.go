package client

import (
	"context"
	"fmt"
	"net/http"

	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// allocRestart restarts one task, all running tasks or, with AllTasks, also the finished ones.
func (c *Client) allocRestart(ctx context.Context, _ *rpc.Call, req *message.AllocRestartRequest) (*message.GenericResponse, error) {
	h, err := c.allocs.find(req.AllocID)
	if err != nil {
		return nil, err
	}
	if req.TaskName != "" {
		if req.AllTasks {
			return nil, nomad.Errorf(http.StatusBadRequest, "a task name and all tasks are mutually exclusive")
		}
		if _, err := c.allocs.task(req.AllocID, req.TaskName); err != nil {
			return nil, err
		}
	}
	if req.AllTasks {
		err = h.runner.RestartAll(ctx)
	} else {
		err = h.runner.Restart(ctx, req.TaskName)
	}
	if err != nil {
		return nil, idle(err)
	}
	return &message.GenericResponse{}, nil
}

// idle turns the error of an operation that does not apply to the task into a 400.
func idle(err error) error {
	if taskrunner.NotApplicable(err) {
		return nomad.Errorf(http.StatusBadRequest, "%v", err)
	}
	return err
}

// allocSignal sends a signal to one task or to all. An unknown signal name is refused before
// anything is sent.
func (c *Client) allocSignal(_ context.Context, _ *rpc.Call, req *message.AllocSignalRequest) (*message.GenericResponse, error) {
	h, err := c.allocs.findOf(req.AllocID, req.Task)
	if err != nil {
		return nil, err
	}
	if _, err := drivers.ParseSignal(req.Signal); err != nil {
		return nil, nomad.Errorf(http.StatusBadRequest, "unknown signal %q", req.Signal)
	}
	if err := h.runner.Signal(req.Task, req.Signal); err != nil {
		return nil, idle(err)
	}
	return &message.GenericResponse{}, nil
}

// allocStats returns the resource usage of the tasks.
func (c *Client) allocStats(_ context.Context, _ *rpc.Call, req *message.AllocStatsRequest) (*message.AllocStatsResponse, error) {
	h, err := c.allocs.findOf(req.AllocID, req.Task)
	if err != nil {
		return nil, err
	}
	usage, err := h.runner.Stats(req.Task)
	if err != nil {
		return nil, err
	}
	return &message.AllocStatsResponse{Stats: usage}, nil
}

// allocCollect removes a finished allocation.
func (c *Client) allocCollect(ctx context.Context, _ *rpc.Call, req *message.AllocSpecificRequest) (*message.GenericResponse, error) {
	if err := c.gc.one(ctx, req.AllocID); err != nil {
		return nil, err
	}
	return &message.GenericResponse{}, nil
}

// allocCollectAll removes all finished allocations.
func (c *Client) allocCollectAll(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.GenericResponse, error) {
	c.gc.all()
	return &message.GenericResponse{}, nil
}

// allocChecks returns the latest results of the checks of the allocation's services.
func (c *Client) allocChecks(_ context.Context, _ *rpc.Call, req *message.AllocChecksRequest) (*message.AllocChecksResponse, error) {
	if _, err := c.allocs.find(req.AllocID); err != nil {
		return nil, err
	}
	return &message.AllocChecksResponse{Results: c.checks.Results(req.AllocID)}, nil
}

// clientStats measures the host.
func (c *Client) clientStats(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.ClientStatsResponse, error) {
	stats, err := c.stats.Measure()
	if err != nil {
		return nil, err
	}
	return &message.ClientStatsResponse{HostStats: stats}, nil
}

// identityGet returns the claims of the node's token, never the token.
func (c *Client) identityGet(context.Context, *rpc.Call, *message.NodeIdentityGetReq) (*message.NodeIdentityGetResp, error) {
	claims, err := c.id.Claims()
	if err != nil {
		return nil, err
	}
	return &message.NodeIdentityGetResp{Claims: claims}, nil
}

// identityRenew requests a new token and triggers a heartbeat.
func (c *Client) identityRenew(context.Context, *rpc.Call, *message.NodeIdentityRenewReq) (*message.NodeIdentityRenewResp, error) {
	if err := c.id.AskRenewal(); err != nil {
		return nil, fmt.Errorf("store the request for a new node identity: %w", err)
	}
	raise(c.urgent)
	return &message.NodeIdentityRenewResp{}, nil
}

// identitySession returns the session ID of this agent to the servers.
func (c *Client) identitySession(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.NodeSessionResponse, error) {
	return &message.NodeSessionResponse{ID: c.session.ID}, nil
}
