package relay

import (
	"context"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Exec forwards an exec session to the node of the allocation. A task whose driver has
// no isolation also needs alloc-node-exec. The server checks that for built-in drivers. For
// other drivers only the node can decide, so the ticket carries the right if the caller has
// it. A caller who loses that right then loses the session.
func (s *Service) Exec(ctx context.Context, c *rpc.Call, req *message.AllocExecRequest, from *rpc.Stream) error {
	if req.AllocID == "" {
		return nomad.ErrMissingAllocID
	}
	alloc := s.Snapshot().Alloc(nil, req.AllocID)
	if err := handler.NeedAlloc(c, alloc, req.AllocID, acl.AllocExec); err != nil {
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

// runsOpen reports whether the driver of a task has no isolation. It is false for a missing
// task, which the node reports.
func runsOpen(a *nomad.Allocation, task string) bool {
	if a.Job == nil {
		return true
	}
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil {
		return true
	}
	t := group.Task(task)
	return t != nil && NotIsolated(t)
}

// NotIsolated reports whether the driver of a task has no isolation. It decides by the
// name of the driver, since only the node has the capabilities of external drivers.
func NotIsolated(t *nomad.Task) bool { return t.Driver == "raw_exec" || t.Driver == "mock_driver" }
