package authz

import (
	"context"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Access returns the rights of an authenticated caller. The error is apierror.ErrPermissionDenied if
// one of its policies cannot be parsed.
func (a *Authority) Access(_ context.Context, id *rbac.AuthenticatedIdentity) (out *rpc.Access, err error) {
	out = &rpc.Access{Rights: acl.Everything, Disabled: !a.enforce}
	if out.Workload, err = a.workload(id); err != nil {
		return &rpc.Access{}, err
	}
	if a.enforce {
		out.Rights, err = a.rights(id, out.Workload)
	}
	return out, err
}

// rights returns the rights that a caller has by its kind or by policies.
func (a *Authority) rights(id *rbac.AuthenticatedIdentity, w *acl.Workload) (*acl.ACL, error) {
	switch {
	case NodeID(id) != "":
		return acl.OfNodes, nil
	case w != nil:
		return a.policies.ofWorkload(a.store(), w)
	case id.ACLToken != nil:
		return a.policies.ofToken(a.store(), id.ACLToken)
	}
	return nil, apierror.ErrPermissionDenied
}

// workload returns the job, group and task of a workload identity, or nil for other callers.
// Namespace, job and group come from the allocation in state.
func (a *Authority) workload(id *rbac.AuthenticatedIdentity) (*acl.Workload, error) {
	if id.Claims == nil || id.Claims.WorkloadIdentityClaims == nil {
		return nil, nil
	}
	w := id.Claims.WorkloadIdentityClaims
	snap := a.store().Snapshot()
	alloc := snap.Alloc(nil, w.AllocationID)
	if alloc == nil || alloc.Job == nil {
		return nil, apierror.ErrPermissionDenied // the allocation ended after the authentication
	}
	return &acl.Workload{Namespace: alloc.Namespace, Job: alloc.Job.IdentityID(), Group: alloc.TaskGroup, Task: w.TaskName,
		Keys: a.keys != nil && a.keys(snap)}, nil
}
