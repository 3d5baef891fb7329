package allocs

import (
	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// mayRead reports whether the caller may read an allocation. Nodes may read their own
// allocations, and those whose ephemeral disk they migrate.
func mayRead(snap *state.Snapshot, c *rpc.Call, a *nomad.Allocation) bool {
	switch {
	case a == nil:
		return false
	case c.Access.Allows(acl.InNamespace(a.Namespace, acl.ReadJob)), own(snap, c.Identity, a) == nil:
		return true
	}
	node := authz.NodeID(c.Identity)
	return node != "" && fetchesDisk(snap, node, a.ID)
}

// fetchesDisk reports whether a non-terminal allocation on the node migrates the ephemeral
// disk of the allocation with the ID.
func fetchesDisk(snap *state.Snapshot, node, id string) bool {
	for a := range snap.AllocsByNode(nil, node) {
		if a.PreviousAllocation != id || a.TerminalStatus() || a.Job == nil {
			continue
		}
		if tg := a.Job.TaskGroup(a.TaskGroup); tg != nil && tg.EphemeralDisk != nil && tg.EphemeralDisk.Migrate {
			return true
		}
	}
	return false
}

// own rejects all callers except the node that the allocation was placed on. It also
// rejects that node after a purge. Its identity remains valid for registering again, but its
// allocations may have been replaced on another node.
func own(snap *state.Snapshot, id *rbac.AuthenticatedIdentity, a *nomad.Allocation) error {
	if err := authz.OwnAlloc(id, a); err != nil {
		return err
	}
	if snap.Node(nil, a.NodeID) == nil {
		return apierror.ErrNodeNotFound
	}
	return nil
}
