package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
)

// planner sends the scheduler's decisions about one evaluation to the leader.
type planner struct {
	cfg      Config
	token    string
	finished bool                        // the leader has the final status
	next     message.EvalDequeueResponse // the next evaluation from the leader
	report   *report
	retired  func() bool // the worker takes no other evaluation
}

var _ scheduler.Planner = (*planner)(nil)

func (p *planner) write() message.WriteRequest { return message.WriteRequest{Region: p.cfg.Region} }

// SubmitPlan submits the plan to the leader. If parts were rejected, the returned state is new
// enough to show why.
func (p *planner) SubmitPlan(ctx context.Context, plan *nomad.Plan) (*nomad.PlanResult, scheduler.State, error) {
	p.report.set(workloadSubmitting)
	defer p.report.set(workloadScheduling)
	plan.EvalToken = p.token
	var resp message.PlanResponse
	begun := time.Now()
	err := p.cfg.RPC.Call(ctx, "Plan.Submit", &message.PlanRequest{Plan: plan, WriteRequest: p.write()}, &resp)
	measure("submit_plan", begun)
	if err != nil {
		return nil, nil, fmt.Errorf("submit plan: %w", err)
	}
	if resp.Result == nil {
		return nil, nil, fmt.Errorf("submit plan: no result")
	}
	if resp.Result.RefreshIndex == 0 {
		return resp.Result, nil, nil
	}
	wait, cancel := context.WithTimeout(ctx, stateWait)
	defer cancel()
	snap, err := p.cfg.Store().SnapshotAfter(wait, resp.Result.RefreshIndex)
	if err != nil {
		return nil, nil, err
	}
	return resp.Result, snap, nil
}

// FinishEval writes the final status of the evaluation and dequeues the next one in the same call.
// During an upgrade the leader may run an earlier version without this call. The planner then
// writes the evaluations one by one, and the worker sends the ack.
func (p *planner) FinishEval(ctx context.Context, eval *nomad.Evaluation, follow ...*nomad.Evaluation) error {
	req := &message.EvalFinishRequest{Evals: append([]*nomad.Evaluation{eval}, follow...), EvalToken: p.token, WriteRequest: p.write()}
	if !p.retired() {
		req.Schedulers = p.cfg.Schedulers
	}
	begun := time.Now()
	err := p.cfg.RPC.Call(ctx, "Eval.Finish", req, &p.next)
	if p.finished = err == nil; p.finished {
		measure("update_eval", begun)
		return nil
	}
	if !errors.Is(err, apierror.ErrNoMethod) {
		return fmt.Errorf("Eval.Finish: %w", err)
	}
	for _, e := range follow {
		if err := p.CreateEval(ctx, e); err != nil {
			return err
		}
	}
	defer measure("update_eval", time.Now())
	return p.send(ctx, "Eval.Update", eval)
}

// CreateEval writes an evaluation that follows this one.
func (p *planner) CreateEval(ctx context.Context, eval *nomad.Evaluation) error {
	defer measure("create_eval", time.Now())
	return p.send(ctx, "Eval.Create", eval)
}

// ReblockEval blocks the evaluation again.
func (p *planner) ReblockEval(ctx context.Context, eval *nomad.Evaluation) error {
	defer measure("reblock_eval", time.Now())
	return p.send(ctx, "Eval.Reblock", eval)
}

// send sends eval with the RPC method.
func (p *planner) send(ctx context.Context, method string, eval *nomad.Evaluation) error {
	req := &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{eval}, EvalToken: p.token, WriteRequest: p.write()}
	if err := p.cfg.RPC.Call(ctx, method, req, &message.GenericResponse{}); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}
