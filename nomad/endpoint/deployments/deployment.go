package deployments

import (
	"context"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/allocs"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Listing describes lists of deployments.
func Listing(q *message.QueryOptions, o page.Order) page.List[*nomad.Deployment] {
	return page.List[*nomad.Deployment]{Opts: q, Order: o, At: func(d *nomad.Deployment) page.Cursor {
		return o.At(d.CreateIndex, d.ID)
	}}
}

// List lists the deployments that the caller may read.
func (s *Service) List(ctx context.Context, c *rpc.Call, req *message.DeploymentListRequest) (*message.DeploymentListResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.DeploymentListResponse) error {
			all := snap.Deployments(ws)
			if req.Prefix != "" {
				all = snap.DeploymentsByPrefix(ws, req.Prefix)
			}
			all, err := handler.Within(snap, handler.Scope{Namespace: req.Namespace, May: handler.Grants(c, acl.ReadJob)}, all,
				func(d *nomad.Deployment) string { return d.Namespace })
			if err != nil {
				return err
			}
			deployments, next, err := Listing(&req.QueryOptions, page.CreationOrder(req.Prefix)).Page(all)
			if err != nil {
				return err
			}
			out.Deployments = page.Each(deployments, func(d *nomad.Deployment) *nomad.Deployment { return d })
			out.NextToken = next
			out.Index = snap.TableIndex(state.TableDeployment)
			return nil
		})
}

// Get returns one deployment.
func (s *Service) Get(ctx context.Context, c *rpc.Call, req *message.DeploymentSpecificRequest) (*message.SingleDeploymentResponse, error) {
	out, err := handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SingleDeploymentResponse) error {
			d := snap.Deployment(nil, req.DeploymentID)
			if d == nil || !c.Access.Allows(acl.InNamespace(d.Namespace, acl.ReadJob)) { // the same for a missing deployment
				snap.Deployments(ws)
				out.Index = snap.TableIndex(state.TableDeployment)
				return nil
			}
			out.Deployment = snap.Deployment(ws, req.DeploymentID)
			out.Index = out.Deployment.ModifyIndex
			return nil
		})
	if err != nil || out.Deployment != nil {
		return out, err
	}
	c.Access.MarkChecked()
	return out, handler.NotFoundOrHidden(c, apierror.UnknownDeployment(req.DeploymentID), acl.ReadJob)
}

// Allocations lists the allocations of a deployment.
func (s *Service) Allocations(ctx context.Context, c *rpc.Call,
	req *message.DeploymentSpecificRequest) (*message.AllocListResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.AllocListResponse) error {
			out.Allocations = allocs.Readable(c, snap.AllocsByDeployment(ws, req.DeploymentID))
			out.Index = snap.TableIndex(state.TableAllocs)
			return nil
		})
}

// mayChange returns an error unless the deployment exists and is active, and the
// caller has one of the rights. The action is what the caller wants to do, such as "fail".
func (s *Service) mayChange(c *rpc.Call, id, action string, ops ...acl.NamespaceCapability) error {
	if id == "" {
		return apierror.Errorf(400, "missing deployment ID")
	}
	d, namespace := s.Snapshot().Deployment(nil, id), ""
	if d != nil {
		namespace = d.Namespace
	}
	if err := handler.NeedInNamespace(c, namespace, apierror.UnknownDeployment(id), ops...); err != nil {
		return err
	}
	if d == nil || !d.Active() {
		return apierror.Errorf(400, "can't %s terminal deployment", action)
	}
	return nil
}

// Fail fails a deployment.
func (s *Service) Fail(ctx context.Context, c *rpc.Call, req *message.DeploymentFailRequest) (*message.DeploymentUpdateResponse, error) {
	if err := s.mayChange(c, req.DeploymentID, "fail", acl.SubmitJob, acl.FailDeployment); err != nil {
		return nil, err
	}
	return s.changer.Fail(ctx, req.DeploymentID)
}

// Pause pauses or resumes a deployment.
func (s *Service) Pause(ctx context.Context, c *rpc.Call, req *message.DeploymentPauseRequest) (*message.DeploymentUpdateResponse, error) {
	action := "resume"
	if req.Pause {
		action = "pause"
	}
	if err := s.mayChange(c, req.DeploymentID, action, acl.SubmitJob, acl.PauseDeployment); err != nil {
		return nil, err
	}
	if req.Pause {
		return s.changer.Pause(ctx, req.DeploymentID)
	}
	return s.changer.Resume(ctx, req.DeploymentID)
}

// Unblock completes a deployment that waits for other regions.
func (s *Service) Unblock(ctx context.Context, c *rpc.Call,
	req *message.DeploymentUnblockRequest) (*message.DeploymentUpdateResponse, error) {
	if err := s.mayChange(c, req.DeploymentID, "unblock", acl.SubmitJob, acl.UnblockDeployment); err != nil {
		return nil, err
	}
	return s.changer.Unblock(ctx, req.DeploymentID)
}

// Cancel cancels a deployment.
func (s *Service) Cancel(ctx context.Context, c *rpc.Call,
	req *message.DeploymentCancelRequest) (*message.DeploymentUpdateResponse, error) {
	if err := s.mayChange(c, req.DeploymentID, "cancel", acl.SubmitJob, acl.CancelDeployment); err != nil {
		return nil, err
	}
	return s.changer.Cancel(ctx, req.DeploymentID)
}

// Run starts a deployment that waits for other regions.
func (s *Service) Run(ctx context.Context, c *rpc.Call, req *message.DeploymentRunRequest) (*message.DeploymentUpdateResponse, error) {
	if err := s.mayChange(c, req.DeploymentID, "run", acl.SubmitJob, acl.RegisterJob); err != nil {
		return nil, err
	}
	return s.changer.Start(ctx, req.DeploymentID)
}

// Promote promotes the canaries of all groups or of the given ones.
func (s *Service) Promote(ctx context.Context, c *rpc.Call,
	req *message.DeploymentPromoteRequest) (*message.DeploymentUpdateResponse, error) {
	if err := s.mayChange(c, req.DeploymentID, "promote", acl.SubmitJob, acl.PromoteDeployment); err != nil {
		return nil, err
	}
	if !req.All && len(req.Groups) == 0 {
		return nil, apierror.Errorf(400, "must specify the groups to promote, or all")
	}
	return s.changer.Promote(ctx, &message.DeploymentPromoteRequest{DeploymentID: req.DeploymentID, All: req.All, Groups: req.Groups})
}

// SetAllocHealth sets the health of allocations of a deployment.
func (s *Service) SetAllocHealth(ctx context.Context, c *rpc.Call,
	req *message.DeploymentAllocHealthRequest) (*message.DeploymentUpdateResponse, error) {
	if err := s.mayChange(c, req.DeploymentID, "set health of allocations for a", acl.SubmitJob, acl.SetAllocHealthDeployment); err != nil {
		return nil, err
	}
	return s.changer.SetAllocHealth(ctx, &message.DeploymentAllocHealthRequest{
		DeploymentID: req.DeploymentID, HealthyAllocationIDs: req.HealthyAllocationIDs, UnhealthyAllocationIDs: req.UnhealthyAllocationIDs})
}

// Reap deletes deployments for the garbage collection.
func (s *Service) Reap(ctx context.Context, _ *rpc.Call, req *message.DeploymentDeleteRequest) (*message.GenericResponse, error) {
	if len(req.Deployments) == 0 {
		return nil, apierror.Errorf(400, "no deployments given")
	}
	return handler.Written(s.Apply(ctx, message.DeploymentDeleteRequestType, &message.DeploymentDeleteRequest{Deployments: req.Deployments}))
}
