package jobs

import (
	"context"
	"slices"
	"strings"
	"sync"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/jobdiff"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Plan runs the scheduler on a snapshot that includes the job. It writes nothing.
func (s *Service) Plan(ctx context.Context, c *rpc.Call, req *message.JobPlanRequest) (*message.JobPlanResponse, error) {
	if req.Job == nil {
		return nil, apierror.Errorf(400, "job required for plan")
	}
	snap := s.Snapshot()
	view := s.admission.At(snap)
	job, err := s.complete(c, view, submission{req.Job, req.WriteRequest, rights{acl.SubmitJob, acl.PlanJob}})
	if err != nil {
		return nil, err
	}
	if err := needOverride(c, job.Namespace, req.PolicyOverride); err != nil {
		return nil, err
	}
	warnings, err := view.Check(admission.Planner(c.Access), job)
	if err != nil {
		return nil, err
	}
	old := snap.Job(nil, job.Namespace, job.ID)
	if err := admission.Replaces(old, job); err != nil {
		return nil, err
	}
	identifyPolicies(snap, job)
	out := &message.JobPlanResponse{Warnings: joinLines(warnings), Isolation: levels(snap, s.Kinds, view.Names(), job)}
	out.Vault, out.VaultOmitted = s.logins(snap, job, job.TaskGroups)
	out.Index = snap.Index()
	planned := planState{Snapshot: snap, job: job}
	next := snap.Index() + 1
	job.CreateIndex, job.ModifyIndex, job.JobModifyIndex = next, next, next
	if old != nil {
		out.JobModifyIndex = old.JobModifyIndex
		job.CreateIndex, job.Version = old.CreateIndex, old.Version+1
		if !old.Stopped() && sameSpec(old, job) {
			planned.job = old // unchanged, so no new version would be registered
		}
	}
	out.NextPeriodicLaunch = nextLaunch(job, s.Now())
	dry := &dryPlanner{index: snap.Index()}
	if eval := s.JobEval(job, 0, nomad.EvalTriggerJobRegister); eval != nil {
		eval.JobModifyIndex, eval.AnnotatePlan = planned.job.JobModifyIndex, true
		sched, err := scheduler.New(job.Type, planned, dry, scheduler.Options{Log: s.Log, Kinds: s.Kinds, Schemas: s.Schemas})
		if err != nil {
			return nil, err
		}
		if err := sched.Process(ctx, eval); err != nil {
			return nil, err
		}
	}
	dry.report(out)
	if req.Diff {
		out.Diff = jobdiff.Compare(view.Comparable(old), planned.job)
		jobdiff.Annotate(out.Diff, out.Annotations)
	}
	return out, nil
}

// planState is a snapshot with one job replaced.
type planState struct {
	*state.Snapshot
	job *nomad.Job
}

// Job returns the planned job for its ID, and other jobs from the snapshot.
func (p planState) Job(ws memdb.WatchSet, ns, id string) *nomad.Job {
	if ns == p.job.Namespace && id == p.job.ID {
		return p.job
	}
	return p.Snapshot.Job(ws, ns, id)
}

// dryPlanner accepts every plan and writes none.
type dryPlanner struct {
	mu       sync.Mutex
	index    uint64
	plan     *nomad.Plan
	finished *nomad.Evaluation
	created  []*nomad.Evaluation
}

// SubmitPlan accepts the plan unchanged.
func (d *dryPlanner) SubmitPlan(_ context.Context, plan *nomad.Plan) (*nomad.PlanResult, scheduler.State, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan = plan
	return &nomad.PlanResult{NodeUpdate: plan.NodeUpdate, NodeAllocation: plan.NodeAllocation, Deployment: plan.Deployment,
		DeploymentUpdates: plan.DeploymentUpdates, NodePreemptions: plan.NodePreemptions, AllocIndex: d.index + 1}, nil, nil
}

// FinishEval records the evaluation, which lists the failed placements, and its follow-ups.
func (d *dryPlanner) FinishEval(_ context.Context, e *nomad.Evaluation, follow ...*nomad.Evaluation) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finished = e
	d.created = append(d.created, follow...)
	return nil
}

// CreateEval records a follow-up evaluation.
func (d *dryPlanner) CreateEval(_ context.Context, e *nomad.Evaluation) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.created = append(d.created, e)
	return nil
}

// ReblockEval does nothing: the evaluation was never blocked.
func (d *dryPlanner) ReblockEval(context.Context, *nomad.Evaluation) error { return nil }

// report copies the decisions of the scheduler to the response.
func (d *dryPlanner) report(out *message.JobPlanResponse) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.plan != nil {
		out.Annotations = d.plan.Annotations
	}
	if d.finished != nil {
		out.FailedTGAllocs = d.finished.FailedTGAllocs
	}
	out.CreatedEvals = d.created
}

func joinLines(lines []string) string { return strings.Join(slices.Compact(lines), "\n") }
