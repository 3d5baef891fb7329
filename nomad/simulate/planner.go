package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
)

// maxEvals limits the evaluations of one job: its own, and those of the jobs that it preempts.
const maxEvals = 1000

// planner applies the plans of schedulers to a cluster, and records them in the result of a job.
type planner struct {
	cluster *Cluster
	job     *Job
	queue   []*nomad.Evaluation // pending
}

var _ scheduler.Planner = (*planner)(nil)

// process processes an evaluation and those that its plan creates. Evaluations that wait for a time or for capacity
// are not processed.
func (p *planner) process(ctx context.Context, eval *nomad.Evaluation) error {
	p.queue = []*nomad.Evaluation{eval}
	for n := 0; len(p.queue) > 0; n++ {
		if n == maxEvals {
			return fmt.Errorf("the plan creates more than %d evaluations", maxEvals)
		}
		next := p.queue[0]
		p.queue = p.queue[1:]
		if err := p.one(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

// one runs the scheduler on one evaluation.
func (p *planner) one(ctx context.Context, eval *nomad.Evaluation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := p.cluster
	s, err := scheduler.New(eval.Type, c.Snapshot(), p, scheduler.Options{Kinds: c.core.Kinds, Schemas: c.core.Schemas,
		Seed: &[32]byte{byte(c.index), byte(c.index >> 8)}, Now: c.now})
	if err != nil {
		return err
	}
	begun := time.Now()
	err = s.Process(ctx, codec.Copy(eval))
	p.job.SchedulingTime += time.Since(begun)
	return err
}

// SubmitPlan checks the plan as the leader does, and applies what fits.
func (p *planner) SubmitPlan(_ context.Context, submitted *nomad.Plan) (*nomad.PlanResult, scheduler.State, error) {
	snap := p.cluster.Snapshot()
	result, command, err := plan.Dry(snap, submitted, p.cluster.now())
	if err != nil {
		return nil, nil, err
	}
	p.job.record(snap, submitted, result)
	if err := p.cluster.apply(message.ApplyPlanResultsRequestType, command); err != nil {
		return nil, nil, fmt.Errorf("apply plan: %w", err)
	}
	if err := p.end(result); err != nil {
		return nil, nil, fmt.Errorf("end stopped allocations: %w", err)
	}
	p.add(command.PreemptionEvals...)
	if result.RefreshIndex == 0 {
		return result, nil, nil
	}
	return result, p.cluster.Snapshot(), nil
}

// end ends the allocations that a plan stops, as their clients would. They use their resources until then.
func (p *planner) end(result *nomad.PlanResult) error {
	snap, req := p.cluster.Snapshot(), &message.AllocUpdateRequest{}
	for _, stops := range []map[string][]*nomad.Allocation{result.NodeUpdate, result.NodePreemptions} {
		for _, allocs := range stops {
			for _, a := range allocs {
				if a = snap.Alloc(nil, a.ID); a != nil && a.ServerTerminalStatus() && !a.ClientTerminalStatus() {
					ended := *a
					ended.ClientStatus = nomad.AllocClientStatusComplete
					req.Alloc = append(req.Alloc, &ended)
				}
			}
		}
	}
	if len(req.Alloc) == 0 {
		return nil
	}
	return p.cluster.apply(message.AllocClientUpdateRequestType, req)
}

// add queues the evaluations that can be processed now.
func (p *planner) add(evals ...*nomad.Evaluation) {
	for _, e := range evals {
		if e.Status == nomad.EvalStatusPending && e.Wait == 0 && e.WaitUntil.IsZero() {
			p.queue = append(p.queue, e)
		}
	}
}

// FinishEval stores the evaluation, which lists the failed placements, and its follow-ups.
func (p *planner) FinishEval(ctx context.Context, e *nomad.Evaluation, follow ...*nomad.Evaluation) error {
	p.job.finish(e)
	return p.store(append(slices.Clip([]*nomad.Evaluation{e}), follow...), follow)
}

// CreateEval stores a follow-up evaluation.
func (p *planner) CreateEval(_ context.Context, e *nomad.Evaluation) error {
	return p.store([]*nomad.Evaluation{e}, []*nomad.Evaluation{e})
}

// ReblockEval stores the evaluation as blocked.
func (p *planner) ReblockEval(_ context.Context, e *nomad.Evaluation) error {
	p.job.finish(e)
	return p.store([]*nomad.Evaluation{e}, nil)
}

// store writes evaluations and queues those of next that are ready.
func (p *planner) store(evals, next []*nomad.Evaluation) error {
	if err := p.cluster.apply(message.EvalUpdateRequestType, &message.EvalUpdateRequest{Evals: evals}); err != nil {
		return fmt.Errorf("store evaluations: %w", err)
	}
	p.add(next...)
	return nil
}
