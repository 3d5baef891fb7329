package authz

import (
	"context"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
)

// everything is what everybody may do while there is no access control.
var everything = acl.New(true)

// Access says what a caller may do that Authenticate has admitted.
func (a *Authority) Access(_ context.Context, id *nomad.AuthenticatedIdentity) (*rpc.Access, error) {
	return &rpc.Access{Workload: a.workload(id), Rights: everything, Off: true}, nil
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
