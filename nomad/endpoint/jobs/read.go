package jobs

import (
	"context"
	"iter"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/allocs"
	"github.com/open-nomad/open-nomad/nomad/endpoint/deployments"
	"github.com/open-nomad/open-nomad/nomad/endpoint/evals"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/jobdiff"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// At returns the position of a job in a list.
func At(j *nomad.Job) page.Cursor { return page.Cursor{Namespace: j.Namespace, ID: j.ID} }

// Select returns the jobs that a list request selects. For the namespace "*" it keeps the
// jobs in namespaces that may allows. For one namespace the caller has already checked
// access.
func Select(snap *state.Snapshot, ws memdb.WatchSet, q *message.QueryOptions,
	may func(namespace string) bool) (iter.Seq[*nomad.Job], error) {
	ns := handler.NamespaceOf(q.Namespace)
	if ns == nomad.AllNamespacesSentinel {
		return page.Only(snap.Jobs(ws), func(j *nomad.Job) bool { return strings.HasPrefix(j.ID, q.Prefix) && may(j.Namespace) }), nil
	}
	if err := handler.KnownNamespace(snap, ns); err != nil {
		return nil, err
	}
	if q.Prefix == "" {
		return snap.JobsByNamespace(ws, ns), nil
	}
	return snap.JobsByPrefix(ws, ns, q.Prefix), nil
}

// Listing describes lists of jobs. A filter sees a job that the caller may not read as its stub in the list.
func Listing(c *rpc.Call, q *message.QueryOptions, stub func(*nomad.Job) *nomad.JobListStub) page.List[*nomad.Job] {
	reads := handler.Grants(c, acl.ReadJob)
	return page.List[*nomad.Job]{Opts: q, Order: page.ByNamespace, At: At,
		Filtered: func(j *nomad.Job) any {
			if reads(j.Namespace) {
				return j
			}
			return stub(j)
		},
		Reduced: func(j *nomad.Job) bool { return !reads(j.Namespace) }}
}

// List lists jobs. For the namespace "*" it lists those in namespaces with the list-jobs right.
func (s *Service) List(ctx context.Context, c *rpc.Call, req *message.JobListRequest) (*message.JobListResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *message.JobListResponse) error {
		all, err := Select(snap, ws, &req.QueryOptions, handler.Grants(c, acl.ListJobs))
		if err != nil {
			return err
		}
		stub := func(j *nomad.Job) *nomad.JobListStub {
			return j.Stub(snap.JobSummary(ws, j.Namespace, j.ID), req.Fields)
		}
		found, next, err := Listing(c, &req.QueryOptions, stub).Page(all)
		if err != nil {
			return err
		}
		out.Jobs = page.Each(found, stub)
		out.NextToken = next
		out.Index = snap.TableIndex(state.TableJobs, state.TableJobSummary)
		return nil
	})
}

// Get returns a job, or nil if it does not exist.
func (s *Service) Get(ctx context.Context, _ *rpc.Call, req *message.JobSpecificRequest) (*message.SingleJobResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SingleJobResponse) error {
		out.Job = snap.Job(ws, handler.NamespaceOf(req.Namespace), req.JobID)
		if out.Index = snap.TableIndex(state.TableJobs); out.Job != nil {
			out.Index = out.Job.ModifyIndex
		}
		return nil
	})
}

// Summary returns the summary of a job, or nil if it does not exist.
func (s *Service) Summary(ctx context.Context, _ *rpc.Call, req *message.JobSummaryRequest) (*message.JobSummaryResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *message.JobSummaryResponse) error {
		out.JobSummary = snap.JobSummary(ws, handler.NamespaceOf(req.Namespace), req.JobID)
		if out.Index = snap.TableIndex(state.TableJobSummary); out.JobSummary != nil {
			out.Index = out.JobSummary.ModifyIndex
		}
		return nil
	})
}

// Versions returns the versions of a job and, if requested, the diffs between them.
func (s *Service) Versions(ctx context.Context, _ *rpc.Call, req *message.JobVersionsRequest) (*message.JobVersionsResponse, error) {
	if req.DiffTagName != "" && req.DiffVersion != nil {
		return nil, apierror.Errorf(400, "diff_tag and diff_version cannot be used together")
	}
	// As in Nomad, the index is 0 if no job was ever registered.
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.JobVersionsResponse) error {
			ns := handler.NamespaceOf(req.Namespace)
			out.Versions = withStatus(snap.JobVersions(ws, ns, req.JobID), snap.Job(ws, ns, req.JobID))
			if len(out.Versions) == 0 {
				out.Index = snap.TableIndex(state.TableJobVersion)
			}
			for _, v := range out.Versions {
				out.Index = max(out.Index, v.ModifyIndex)
			}
			if !req.Diffs {
				return nil
			}
			return diffVersions(snap, ns, req, out)
		})
}

// withStatus returns the versions of a job with their statuses: that of the job for its current version, and dead for
// the others. A stored version has the status at the time of its registration, before its evaluation existed. The status
// is derived here and not stored, so that it is also right for versions from snapshots and from the log of another leader.
func withStatus(versions []*nomad.Job, current *nomad.Job) []*nomad.Job {
	return page.Each(versions, func(stored *nomad.Job) *nomad.Job {
		v := *stored
		v.Status, v.StatusDescription = nomad.JobStatusDead, ""
		if current != nil && current.Version == stored.Version {
			v.Status, v.StatusDescription = current.Status, current.StatusDescription
			v.ModifyIndex = max(v.ModifyIndex, current.ModifyIndex)
		}
		return &v
	})
}

// diffVersions adds the diff between each version and the next newer one. With DiffVersion or
// DiffTagName it adds the diff between that version and each other one.
func diffVersions(snap *state.Snapshot, ns string, req *message.JobVersionsRequest, out *message.JobVersionsResponse) error {
	var base *nomad.Job
	if req.DiffTagName != "" {
		var err error
		if base, err = snap.VersionWithTag(ns, req.JobID, req.DiffTagName); err != nil {
			return err
		}
	}
	if req.DiffVersion != nil {
		if base = snap.JobVersion(nil, ns, req.JobID, *req.DiffVersion); base == nil {
			return apierror.Errorf(404, "job %q has no version %d", req.JobID, *req.DiffVersion)
		}
	}
	for i, v := range out.Versions {
		old := base
		if base == nil {
			if i+1 == len(out.Versions) {
				break
			}
			old = out.Versions[i+1]
		} else if v.Version == base.Version {
			continue
		}
		out.Diffs = append(out.Diffs, jobdiff.Compare(old, v))
	}
	return nil
}

// Submission returns the source that a version of a job was registered from, or nil.
func (s *Service) Submission(ctx context.Context, _ *rpc.Call, req *message.JobSubmissionRequest) (*message.JobSubmissionResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.JobSubmissionResponse) error {
			out.Submission = snap.JobSubmission(ws, handler.NamespaceOf(req.Namespace), req.JobID, req.Version)
			if out.Index = snap.TableIndex(state.TableJobSubmission); out.Submission != nil {
				out.Index = out.Submission.JobModifyIndex
			}
			return nil
		})
}

// Allocations lists the allocations of a job. It omits those of an earlier job with the same ID,
// unless the request asks for all.
func (s *Service) Allocations(ctx context.Context, _ *rpc.Call, req *message.JobSpecificRequest) (*message.JobAllocationsResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.JobAllocationsResponse) error {
			job := registered(snap, ws, req)
			all := page.Only(snap.AllocsByJob(ws, handler.NamespaceOf(req.Namespace), req.JobID), func(a *nomad.Allocation) bool {
				return job == nil || a.Job != nil && a.Job.CreateIndex == job.CreateIndex
			})
			found, next, err := allocs.Listing(&req.QueryOptions, page.ByID).Page(all)
			if err != nil {
				return err
			}
			out.Allocations = page.Each(found, func(a *nomad.Allocation) *nomad.AllocListStub { return a.Stub(nil) })
			out.NextToken = next
			out.Index = snap.TableIndex(state.TableAllocs)
			return nil
		})
}

// registered returns the current job of a request, to exclude objects of an earlier job with
// the same ID. It is nil if the job does not exist or the request asks for all.
func registered(snap *state.Snapshot, ws memdb.WatchSet, req *message.JobSpecificRequest) *nomad.Job {
	if req.All {
		return nil
	}
	return snap.Job(ws, handler.NamespaceOf(req.Namespace), req.JobID)
}

// Evaluations lists the evaluations of a job.
func (s *Service) Evaluations(ctx context.Context, _ *rpc.Call, req *message.JobSpecificRequest) (*message.JobEvaluationsResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.JobEvaluationsResponse) error {
			found, next, err := evals.Listing(&req.QueryOptions, page.ByID).Page(snap.EvalsByJob(ws, handler.NamespaceOf(req.Namespace), req.JobID))
			if err != nil {
				return err
			}
			out.Evaluations = page.Each(found, func(e *nomad.Evaluation) *nomad.Evaluation { return e })
			out.NextToken = next
			out.Index = snap.TableIndex(state.TableEvals)
			return nil
		})
}

// Deployments lists the deployments of a job. It omits those of an earlier job with the same ID,
// unless the request asks for all.
func (s *Service) Deployments(ctx context.Context, _ *rpc.Call, req *message.JobSpecificRequest) (*message.DeploymentListResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.DeploymentListResponse) error {
			job := registered(snap, ws, req)
			all := page.Only(snap.DeploymentsByJob(ws, handler.NamespaceOf(req.Namespace), req.JobID), func(d *nomad.Deployment) bool {
				return job == nil || d.JobCreateIndex == job.CreateIndex
			})
			found, next, err := deployments.Listing(&req.QueryOptions, page.ByID).Page(all)
			if err != nil {
				return err
			}
			out.Deployments = page.Each(found, func(d *nomad.Deployment) *nomad.Deployment { return d })
			out.NextToken = next
			out.Index = snap.TableIndex(state.TableDeployment)
			return nil
		})
}

// LatestDeployment returns the newest deployment of a job, or nil if there is none.
func (s *Service) LatestDeployment(ctx context.Context, _ *rpc.Call,
	req *message.JobSpecificRequest) (*message.SingleDeploymentResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SingleDeploymentResponse) error {
			d := snap.LatestDeployment(ws, handler.NamespaceOf(req.Namespace), req.JobID)
			if job := registered(snap, ws, req); d != nil && (job == nil || d.JobCreateIndex == job.CreateIndex) {
				out.Deployment = d
			}
			if out.Index = snap.TableIndex(state.TableDeployment); out.Deployment != nil {
				out.Index = out.Deployment.ModifyIndex
			}
			return nil
		})
}
