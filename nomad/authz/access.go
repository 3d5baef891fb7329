package authz

import (
	"context"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
)

// Access says what a caller may do that Authenticate has admitted. The error is a
// nomad.ErrPermissionDenied for who has a policy that cannot be read.
func (a *Authority) Access(_ context.Context, id *nomad.AuthenticatedIdentity) (out *rpc.Access, err error) {
	out = &rpc.Access{Workload: a.workload(id), Rights: acl.Everything, Off: !a.enforce}
	if a.enforce {
		out.Rights, err = a.rights(id, out.Workload)
	}
	return out, err
}

// rights is what a caller has by its kind, or by policies.
func (a *Authority) rights(id *nomad.AuthenticatedIdentity, w *acl.Workload) (*acl.ACL, error) {
	switch {
	case NodeID(id) != "":
		return acl.OfNodes, nil
	case w != nil:
		return a.policies.ofWorkload(a.store(), w)
	case id.ACLToken != nil:
		return a.policies.ofToken(a.store(), id.ACLToken)
	}
	return nil, nomad.ErrPermissionDenied
}

// workload says which group and task a workload identity belongs to, nil for others.
func (a *Authority) workload(id *nomad.AuthenticatedIdentity) *acl.Workload {
	if id.Claims == nil || id.Claims.WorkloadIdentityClaims == nil {
		return nil
	}
	w := id.Claims.WorkloadIdentityClaims
	out := &acl.Workload{Namespace: w.Namespace, Job: w.JobID, Task: w.TaskName}
	if alloc := a.store().Snapshot().Alloc(nil, w.AllocationID); alloc != nil {
		out.Group = alloc.TaskGroup
	}
	return out
}
