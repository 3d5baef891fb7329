package nodepools

import (
	"cmp"
	"context"
	"iter"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/endpoint/jobs"
	"github.com/open-nomad/open-nomad/nomad/endpoint/nodes"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

var records = handler.Records[nomad.NodePool, nomad.NodePool]{
	Tables: []string{state.TableNodePools},
	Get:    (*state.Snapshot).NodePool,
	At:     func(p *nomad.NodePool) page.Cursor { return page.Cursor{ID: p.Name} },
	Order:  page.ByID,
	Index:  func(p *nomad.NodePool) uint64 { return p.ModifyIndex },
	Stub:   func(p *nomad.NodePool) *nomad.NodePool { return p },
}

// List returns the node pools that the caller may read.
func (s *Service) List(ctx context.Context, c *rpc.Call, req *message.NodePoolListRequest) (*message.NodePoolListResponse, error) {
	readable := func(p *nomad.NodePool) bool { return c.Access.Allows(acl.OfNodePool(p.Name, acl.NodePoolRead)) }
	found, meta, err := records.List(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet) iter.Seq[*nomad.NodePool] {
			return page.Only(snap.NodePools(ws), readable)
		})
	return &message.NodePoolListResponse{NodePools: found, QueryMeta: meta}, err
}

// Get returns a node pool, or nil if it does not exist.
func (s *Service) Get(ctx context.Context, c *rpc.Call, req *message.NodePoolSpecificRequest) (*message.SingleNodePoolResponse, error) {
	if err := c.Access.Need(acl.OfNodePool(req.Name, acl.NodePoolRead)); err != nil {
		return nil, err
	}
	found, meta, err := records.One(ctx, s.Core, &req.QueryOptions, req.Name)
	return &message.SingleNodePoolResponse{NodePool: found, QueryMeta: meta}, err
}

// Jobs lists the jobs of a node pool that the caller may list.
func (s *Service) Jobs(ctx context.Context, c *rpc.Call, req *message.NodePoolJobsRequest) (*message.NodePoolJobsResponse, error) {
	if err := c.Access.Need(acl.OfNodePool(req.Name, acl.NodePoolRead)); err != nil {
		return nil, err
	}
	if ns := handler.NamespaceOf(req.Namespace); ns != nomad.AllNamespacesSentinel {
		if err := c.Access.Need(acl.InNamespace(ns, acl.ListJobs)); err != nil {
			return nil, err
		}
	}
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.NodePoolJobsResponse) error {
			if snap.NodePool(ws, req.Name) == nil {
				return apierror.Errorf(404, "node pool %q not found", req.Name)
			}
			all, err := jobs.Select(snap, ws, &req.QueryOptions, handler.Grants(c, acl.ListJobs))
			if err != nil {
				return err
			}
			all = page.Only(all, func(j *nomad.Job) bool { return j.NodePool == req.Name })
			stub := func(j *nomad.Job) *nomad.JobListStub {
				return j.Stub(snap.JobSummary(ws, j.Namespace, j.ID), req.Fields)
			}
			found, next, err := jobs.Listing(c, &req.QueryOptions, stub).Page(all)
			if err != nil {
				return err
			}
			out.Jobs = page.Each(found, stub)
			out.NextToken = next
			out.Index = snap.TableIndex(state.TableJobs, state.TableJobSummary)
			return nil
		})
}

// Nodes lists the nodes of a node pool.
func (s *Service) Nodes(ctx context.Context, c *rpc.Call, req *message.NodePoolNodesRequest) (*message.NodePoolNodesResponse, error) {
	for _, q := range []acl.Question{acl.ToRead(acl.Nodes), acl.OfNodePool(req.Name, acl.NodePoolRead)} {
		if err := c.Access.Need(q); err != nil {
			return nil, err
		}
	}
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.NodePoolNodesResponse) error {
			if snap.NodePool(ws, req.Name) == nil {
				return apierror.Errorf(404, "node pool %q not found", req.Name)
			}
			l := nodes.Listing(&req.QueryOptions)
			l.Order = l.Order.Sorted() // the index by pool is not sorted by ID
			found, next, err := l.Page(snap.NodesByPool(ws, req.Name))
			if err != nil {
				return err
			}
			out.Nodes = page.Each(found, func(n *nomad.Node) *nomad.NodeListStub { return n.Stub(req.Fields) })
			out.NextToken = next
			out.Index = snap.TableIndex(state.TableNodes)
			return nil
		})
}

// Upsert stores node pools.
func (s *Service) Upsert(ctx context.Context, c *rpc.Call, req *message.NodePoolUpsertRequest) (*message.GenericResponse, error) {
	if len(req.NodePools) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one node pool")
	}
	if err := needAll(c, req.NodePools, func(p *nomad.NodePool) acl.Question {
		return acl.OfNodePool(cmp.Or(p, &nomad.NodePool{}).Name, acl.NodePoolWrite)
	}); err != nil {
		return nil, err
	}
	for _, p := range req.NodePools {
		switch {
		case p == nil || !rules.NodePoolName().MatchString(p.Name):
			return nil, apierror.Errorf(400, "invalid node pool name: it must match %s", rules.NodePoolName())
		case p.Name == nomad.NodePoolAll || p.Name == nomad.NodePoolDefault:
			return nil, apierror.Errorf(400, "modifying node pool %q is not allowed", p.Name)
		case len(p.Description) > rules.MaxDescription:
			return nil, apierror.Errorf(400, "description of node pool %q is longer than %d characters", p.Name, rules.MaxDescription)
		case p.NodeIdentityTTL < 0:
			return nil, apierror.Errorf(400, "negative node identity TTL of node pool %q", p.Name)
		}
		if err := fitScheduler(p); err != nil {
			return nil, err
		}
	}
	return s.write(ctx, message.NodePoolUpsertRequestType, &message.NodePoolUpsertRequest{NodePools: req.NodePools})
}

// fitScheduler rejects an unknown scheduler algorithm.
func fitScheduler(p *nomad.NodePool) error {
	if p.SchedulerConfiguration == nil {
		return nil
	}
	switch algorithm := p.SchedulerConfiguration.SchedulerAlgorithm; algorithm {
	case "", nomad.SchedulerAlgorithmBinpack, nomad.SchedulerAlgorithmSpread:
		return nil
	default:
		return apierror.Errorf(400, "invalid scheduler algorithm %q of node pool %q: use %s or %s", algorithm, p.Name,
			nomad.SchedulerAlgorithmBinpack, nomad.SchedulerAlgorithmSpread)
	}
}

// Delete deletes node pools that have no nodes and no jobs, running or not.
func (s *Service) Delete(ctx context.Context, c *rpc.Call, req *message.NodePoolDeleteRequest) (*message.GenericResponse, error) {
	if len(req.Names) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one node pool to delete")
	}
	if err := needAll(c, req.Names, func(name string) acl.Question { return acl.OfNodePool(name, acl.NodePoolDelete) }); err != nil {
		return nil, err
	}
	snap := s.Snapshot()
	for _, name := range req.Names {
		switch {
		case name == nomad.NodePoolAll || name == nomad.NodePoolDefault:
			return nil, apierror.Errorf(400, "node pool %q is not allowed to be deleted", name)
		case snap.NodePool(nil, name) == nil:
			return nil, apierror.Errorf(404, "node pool %q not found", name)
		}
		for range snap.NodesByPool(nil, name) {
			return nil, apierror.Errorf(400, "node pool %q has nodes", name)
		}
		for j := range snap.Jobs(nil) {
			if j.NodePool == name {
				return nil, apierror.Errorf(400, "node pool %q has the job %q of namespace %q: purge its jobs first", name, j.ID, j.Namespace)
			}
		}
	}
	return s.write(ctx, message.NodePoolDeleteRequestType, &message.NodePoolDeleteRequest{Names: req.Names})
}

func (s *Service) write(ctx context.Context, t message.CommandType, entry any) (*message.GenericResponse, error) {
	return handler.Written(s.Apply(ctx, t, entry))
}

// needAll checks every item, and returns the first error.
func needAll[T any](c *rpc.Call, things []T, question func(T) acl.Question) error {
	c.Access.MarkChecked() // an empty list needs no right
	for _, t := range things {
		if err := c.Access.Need(question(t)); err != nil {
			return err
		}
	}
	return nil
}
