package endpoint

import (
	"context"
	"iter"

	memdb "github.com/hashicorp/go-memdb"
	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// deploymentList describes lists of deployments.
func deploymentList(q *nomad.QueryOptions, o order) list[*nomad.Deployment] {
	return list[*nomad.Deployment]{opts: q, order: o, at: func(d *nomad.Deployment) cursor {
		if !o.sort {
			return cursor{id: d.ID}
		}
		return cursor{index: d.CreateIndex, id: d.ID}
	}}
}

func (s *Service) deploymentList(ctx context.Context, c *rpc.Call, req *nomad.DeploymentListRequest) (*nomad.DeploymentListResponse, error) {
	return readList(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.DeploymentListResponse) error {
		all := snap.Deployments(ws)
		if req.Prefix != "" {
			all = snap.DeploymentsByPrefix(ws, req.Prefix)
		}
		all, err := within(snap, req.Namespace, all, func(d *nomad.Deployment) string { return d.Namespace }, grants(c, acl.ReadJob))
		if err != nil {
			return err
		}
		deployments, next, err := deploymentList(&req.QueryOptions, creationOrder(req.Prefix)).page(all)
		if err != nil {
			return err
		}
		out.Deployments = each(deployments, func(d *nomad.Deployment) *nomad.Deployment { return d })
		out.NextToken = next
		out.Index = snap.TableIndex(state.TableDeployment)
		return nil
	})
}

func (s *Service) deploymentGet(ctx context.Context, c *rpc.Call, req *nomad.DeploymentSpecificRequest) (*nomad.SingleDeploymentResponse, error) {
	out, err := read(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.SingleDeploymentResponse) error {
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
	c.Access.Open()
	return out, notSeen(c, nomad.UnknownDeployment(req.DeploymentID), acl.ReadJob)
}

func (s *Service) deploymentAllocations(ctx context.Context, c *rpc.Call, req *nomad.DeploymentSpecificRequest) (*nomad.AllocListResponse, error) {
	return readList(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.AllocListResponse) error {
		out.Allocations = readable(c, snap.AllocsByDeployment(ws, req.DeploymentID))
		out.Index = snap.TableIndex(state.TableAllocs)
		return nil
	})
}

// readable returns the stubs of the allocations that the caller may read.
func readable(c *rpc.Call, all iter.Seq[*nomad.Allocation]) []*nomad.AllocListStub {
	out, may := []*nomad.AllocListStub{}, grants(c, acl.ReadJob)
	c.Access.Open() // an empty list needs no right
	for a := range all {
		if may(a.Namespace) {
			out = append(out, a.Stub(nil))
		}
	}
	return out
}

// deploymentToChange returns an error unless the deployment exists and is active, and the
// caller has one of the rights.
func (s *Service) deploymentToChange(c *rpc.Call, id string, ops ...acl.NamespaceCapability) error {
	if id == "" {
		return nomad.Errorf(400, "missing deployment ID")
	}
	d, namespace := s.snapshot().Deployment(nil, id), ""
	if d != nil {
		namespace = d.Namespace
	}
	if err := needOf(c, namespace, nomad.UnknownDeployment(id), ops...); err != nil {
		return err
	}
	if d == nil || !d.Active() {
		return nomad.Errorf(400, "can't change terminal deployment")
	}
	return nil
}

func (s *Service) deploymentFail(ctx context.Context, c *rpc.Call, req *nomad.DeploymentFailRequest) (*nomad.DeploymentUpdateResponse, error) {
	if err := s.deploymentToChange(c, req.DeploymentID, acl.SubmitJob, acl.FailDeployment); err != nil {
		return nil, err
	}
	return s.cfg.Deploys.Fail(ctx, req.DeploymentID)
}

func (s *Service) deploymentPause(ctx context.Context, c *rpc.Call, req *nomad.DeploymentPauseRequest) (*nomad.DeploymentUpdateResponse, error) {
	if err := s.deploymentToChange(c, req.DeploymentID, acl.SubmitJob, acl.PauseDeployment); err != nil {
		return nil, err
	}
	if req.Pause {
		return s.cfg.Deploys.Pause(ctx, req.DeploymentID)
	}
	return s.cfg.Deploys.Resume(ctx, req.DeploymentID)
}

func (s *Service) deploymentReap(ctx context.Context, _ *rpc.Call, req *nomad.DeploymentDeleteRequest) (*nomad.GenericResponse, error) {
	if len(req.Deployments) == 0 {
		return nil, nomad.Errorf(400, "no deployments given")
	}
	index, err := s.apply(ctx, nomad.DeploymentDeleteRequestType, &nomad.DeploymentDeleteRequest{Deployments: req.Deployments})
	if err != nil {
		return nil, err
	}
	out := &nomad.GenericResponse{}
	out.Index = index
	return out, nil
}
