package jobs

import (
	"context"
	"iter"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// maxStatuses is the maximum number of jobs in one request.
const maxStatuses = 1000

// Statuses returns the status of all jobs, or of the jobs that the request names. The most
// recently modified job comes first, or last with Reverse.
func (s *Service) Statuses(ctx context.Context, c *rpc.Call, req *message.JobStatusesRequest) (*message.JobStatusesResponse, error) {
	if len(req.Jobs) > maxStatuses {
		return nil, apierror.Errorf(400, "request for more than %d jobs", maxStatuses)
	}
	opts := req.QueryOptions
	opts.Reverse = !opts.Reverse
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.JobStatusesResponse) error {
			all, err := statusJobs(snap, ws, req, handler.Grants(c, acl.ReadJob))
			if err != nil {
				return err
			}
			jobs, next, err := page.List[*nomad.Job]{Opts: &opts, Order: page.ByModification,
				At: func(j *nomad.Job) page.Cursor {
					return page.Cursor{Index: j.ModifyIndex, Namespace: j.Namespace, ID: j.ID}
				}}.Page(all)
			if err != nil {
				return err
			}
			out.Jobs = page.Each(jobs, func(j *nomad.Job) message.JobStatusesJob { return statusOf(snap, ws, j) })
			out.NextToken = next
			out.Index = snap.TableIndex(state.TableJobs, state.TableAllocs, state.TableDeployment)
			return nil
		})
}

// statusJobs returns the jobs of a request that are in namespaces that may allows.
func statusJobs(snap *state.Snapshot, ws memdb.WatchSet, req *message.JobStatusesRequest,
	may func(namespace string) bool) (iter.Seq[*nomad.Job], error) {
	if len(req.Jobs) == 0 {
		all, err := Select(snap, ws, &req.QueryOptions, may)
		if err != nil || req.IncludeChildren {
			return all, err
		}
		return page.Only(all, func(j *nomad.Job) bool { return j.ParentID == "" }), nil
	}
	return func(yield func(*nomad.Job) bool) {
		for _, id := range req.Jobs {
			ns := handler.NamespaceOf(id.Namespace)
			if !may(ns) {
				continue
			}
			if j := snap.Job(ws, ns, id.ID); j != nil && !yield(j) {
				return
			}
		}
	}, nil
}

func statusOf(snap *state.Snapshot, ws memdb.WatchSet, j *nomad.Job) message.JobStatusesJob {
	out := message.JobStatusesJob{
		NamespacedID: j.NamespacedID(), Name: j.Name, Type: j.Type, NodePool: j.NodePool, Datacenters: j.Datacenters,
		Priority: j.Priority, Version: j.Version, SubmitTime: j.SubmitTime, ModifyIndex: j.ModifyIndex,
		ParentID: j.ParentID, Stop: j.Stop, Status: j.Status, Allocs: []message.JobStatusesAlloc{},
	}
	_, out.IsPack = j.Meta["pack.name"]
	if j.IsPeriodic() || j.IsParameterized() {
		for child := range snap.JobChildren(ws, j.Namespace, j.ID) {
			out.ChildStatuses = append(out.ChildStatuses, child.Status)
		}
		return out
	}
	for _, tg := range j.TaskGroups {
		out.GroupCountSum += tg.Count
	}
	for a := range snap.AllocsByJob(ws, j.Namespace, j.ID) {
		out.Allocs = append(out.Allocs, statusOfAlloc(a))
		out.ModifyIndex = max(out.ModifyIndex, a.ModifyIndex)
	}
	if d := snap.LatestDeployment(ws, j.Namespace, j.ID); d != nil {
		out.LatestDeployment = statusOfDeployment(d)
	}
	return out
}

func statusOfAlloc(a *nomad.Allocation) message.JobStatusesAlloc {
	out := message.JobStatusesAlloc{HasPausedTask: a.HasPausedTask(), ID: a.ID, Group: a.TaskGroup, ClientStatus: a.ClientStatus,
		NodeID: a.NodeID, FollowupEvalID: a.FollowupEvalID}
	if a.Job != nil {
		out.JobVersion = a.Job.Version
	}
	if d := a.DeploymentStatus; d != nil {
		out.DeploymentStatus = message.JobStatusesDeployment{Canary: d.Canary, Healthy: d.Healthy}
	}
	return out
}

func statusOfDeployment(d *nomad.Deployment) *message.JobStatusesLatestDeployment {
	out := &message.JobStatusesLatestDeployment{ID: d.ID, IsActive: d.Active(), JobVersion: d.JobVersion, Status: d.Status,
		StatusDescription: d.StatusDescription, AllAutoPromote: true}
	for _, g := range d.TaskGroups {
		out.AllAutoPromote = out.AllAutoPromote && g.AutoPromote
		out.RequiresPromotion = out.RequiresPromotion || g.DesiredCanaries > 0 && !g.Promoted
	}
	return out
}
