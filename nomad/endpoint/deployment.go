package endpoint

import (
	"context"

	memdb "github.com/hashicorp/go-memdb"
	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
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

func (s *Service) deploymentList(ctx context.Context, _ *rpc.Call, req *nomad.DeploymentListRequest) (*nomad.DeploymentListResponse, error) {
	return read(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.DeploymentListResponse) error {
		all := snap.Deployments(ws)
		if req.Prefix != "" {
			all = snap.DeploymentsByPrefix(ws, req.Prefix)
		}
		all, err := within(snap, req.Namespace, all, func(d *nomad.Deployment) string { return d.Namespace })
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

func (s *Service) deploymentGet(ctx context.Context, _ *rpc.Call, req *nomad.DeploymentSpecificRequest) (*nomad.SingleDeploymentResponse, error) {
	return read(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.SingleDeploymentResponse) error {
		out.Deployment = snap.Deployment(ws, req.DeploymentID)
		if out.Index = snap.TableIndex(state.TableDeployment); out.Deployment != nil {
			out.Index = out.Deployment.ModifyIndex
		}
		return nil
	})
}

func (s *Service) deploymentAllocations(ctx context.Context, _ *rpc.Call, req *nomad.DeploymentSpecificRequest) (*nomad.AllocListResponse, error) {
	return read(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.AllocListResponse) error {
		out.Allocations = []*nomad.AllocListStub{}
		for a := range snap.AllocsByDeployment(ws, req.DeploymentID) {
			out.Allocations = append(out.Allocations, a.Stub(nil))
		}
		out.Index = snap.TableIndex(state.TableAllocs)
		return nil
	})
}

// deploymentToChange returns an error unless the deployment is there and active.
func (s *Service) deploymentToChange(id string) error {
	if id == "" {
		return nomad.Errorf(400, "missing deployment ID")
	}
	d := s.snapshot().Deployment(nil, id)
	switch {
	case d == nil:
		return nomad.UnknownDeployment(id)
	case !d.Active():
		return nomad.Errorf(400, "can't change terminal deployment")
	}
	return nil
}

func (s *Service) deploymentFail(ctx context.Context, _ *rpc.Call, req *nomad.DeploymentFailRequest) (*nomad.DeploymentUpdateResponse, error) {
	if err := s.deploymentToChange(req.DeploymentID); err != nil {
		return nil, err
	}
	return s.cfg.Deploys.Fail(ctx, req.DeploymentID)
}

func (s *Service) deploymentPause(ctx context.Context, _ *rpc.Call, req *nomad.DeploymentPauseRequest) (*nomad.DeploymentUpdateResponse, error) {
	if err := s.deploymentToChange(req.DeploymentID); err != nil {
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
