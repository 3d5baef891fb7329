package endpoint

import (
	"context"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// allocExec passes a session on to the node of the allocation. A task whose driver isolates
// nothing takes the right alloc-node-exec too. The drivers built into the node are known
// here. Of others only the node knows that, so the ticket says whether the caller has the
// right; a caller that loses it then loses the session.
func (s *Service) allocExec(ctx context.Context, c *rpc.Call, req *nomad.AllocExecRequest, from *rpc.Stream) error {
	if req.AllocID == "" {
		return nomad.ErrMissingAllocID
	}
	alloc := s.snapshot().Alloc(nil, req.AllocID)
	if err := needAlloc(c, alloc, req.AllocID, acl.AllocExec); err != nil {
		return err
	}
	onNode := acl.InNamespace(alloc.Namespace, acl.AllocNodeExec)
	var rights []string
	if runsOpen(alloc, req.Task) || c.Access.Allows(onNode) {
		if err := c.Access.Need(onNode); err != nil {
			return err
		}
		rights = []string{string(acl.AllocNodeExec)}
	}
	e, err := s.reach(alloc.NodeID, alloc.ID)
	if err != nil {
		return err
	}
	e.rights = rights
	return bridge(ctx, s, c, e, req, from)
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
