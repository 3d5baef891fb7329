package relay

import (
	"context"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Exec forwards an exec session to the node of the allocation. A privileged task, and
// one whose driver has no isolation, also needs alloc-node-exec. The server checks that for built-in
// drivers. For other drivers only the node can decide, so the ticket carries the right if the caller has
// it. A caller who loses that right then loses the session.
func (s *Service) Exec(ctx context.Context, c *rpc.Call, req *message.AllocExecRequest, from *rpc.Stream) error {
	if req.AllocID == "" {
		return apierror.ErrMissingAllocID
	}
	alloc := s.Snapshot().Alloc(nil, req.AllocID)
	if err := handler.NeedAlloc(c, alloc, req.AllocID, acl.AllocExec); err != nil {
		return err
	}
	onNode := acl.InNamespace(alloc.Namespace, acl.AllocNodeExec)
	var rights []string
	if s.exposed(alloc, req.Task) || c.Access.Allows(onNode) {
		if err := c.Access.Need(onNode); err != nil {
			return err
		}
		rights = []string{string(acl.AllocNodeExec)}
	}
	e, err := s.reach(c, alloc.NodeID, alloc.ID)
	if err != nil {
		return err
	}
	e.rights = rights
	return bridge(ctx, e, req, from)
}

// exposed reports whether a task is privileged, or not isolated from the node by its driver. It is false for a
// missing task, which the node reports, and for a driver whose kind is not built-in, which only the
// node knows.
func (s *Service) exposed(a *nomad.Allocation, task string) bool {
	if a.Job == nil {
		return true
	}
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil {
		return true
	}
	t := group.Task(task)
	return t != nil && (t.Privileged || kinds.Exposed(s.Kinds.On(s.Snapshot().Node(nil, a.NodeID), t.Driver)))
}
