package endpoint

import (
	"context"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
)

// allocExec passes a session on to the node of the allocation. The node asks for what the
// caller needs again, and knows its drivers; those that isolate nothing are known here
// too, since a node may be without access control.
func (s *Service) allocExec(ctx context.Context, c *rpc.Call, req *nomad.AllocExecRequest, from *rpc.Stream) error {
	defer metrics.MeasureSince([]string{"nomad", "alloc", "exec"}, time.Now())
	if req.AllocID == "" {
		return nomad.ErrMissingAllocID
	}
	alloc := s.snapshot().Alloc(nil, req.AllocID)
	if err := needAlloc(c, alloc, req.AllocID, acl.AllocExec); err != nil {
		return err
	}
	if runsOpen(alloc, req.Task) {
		if err := c.Access.Need(acl.InNamespace(alloc.Namespace, acl.AllocNodeExec)); err != nil {
			return err
		}
	}
	node, err := s.reach(alloc.NodeID)
	if err != nil {
		return err
	}
	return s.bridge(ctx, node, "Allocations.Exec", req, from)
}

// runsOpen says whether a task of an allocation has a driver that isolates nothing. Of a
// task that there is not the node says so.
func runsOpen(a *nomad.Allocation, task string) bool {
	if a.Job == nil {
		return true
	}
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil {
		return true
	}
	t := group.Task(task)
	return t != nil && isOpen(t)
}
