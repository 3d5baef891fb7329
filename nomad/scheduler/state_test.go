package scheduler_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// leader commits plans to a real store without checks.
type leader struct {
	t     *testing.T
	store *state.Store
	index uint64
	evals []*nomad.Evaluation
}

func (l *leader) next() uint64 { l.index++; return l.index }

func (l *leader) SubmitPlan(_ context.Context, p *nomad.Plan) (*nomad.PlanResult, scheduler.State, error) {
	req := &message.ApplyPlanResultsRequest{Job: p.Job, Deployment: p.Deployment, DeploymentUpdates: p.DeploymentUpdates, EvalID: p.EvalID}
	for _, list := range p.NodeUpdate {
		for _, a := range list {
			req.AllocsStopped = append(req.AllocsStopped, (*nomad.AllocationDiff)(a))
		}
	}
	for _, list := range p.NodeAllocation {
		req.AllocsUpdated = append(req.AllocsUpdated, list...)
	}
	if _, err := l.store.ApplyPlanResults(l.next(), req); err != nil {
		return nil, nil, err
	}
	return &nomad.PlanResult{NodeUpdate: p.NodeUpdate, NodeAllocation: p.NodeAllocation}, nil, nil
}

func (l *leader) FinishEval(_ context.Context, e *nomad.Evaluation, follow ...*nomad.Evaluation) error {
	l.evals = append(append(l.evals, follow...), e)
	return nil
}

func (l *leader) CreateEval(_ context.Context, e *nomad.Evaluation) error {
	l.evals = append(l.evals, e)
	return nil
}

func (l *leader) ReblockEval(ctx context.Context, e *nomad.Evaluation) error {
	return l.CreateEval(ctx, e)
}

func (l *leader) must(_ *state.Changes, err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *leader) process() {
	l.t.Helper()
	s, err := scheduler.New(nomad.JobTypeService, l.store.Snapshot(), l, scheduler.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	e := &nomad.Evaluation{ID: nomad.NewID(), Namespace: "default", JobID: "j", Type: nomad.JobTypeService, Priority: 50,
		Status: nomad.EvalStatusPending}
	if err := s.Process(context.Background(), e); err != nil {
		l.t.Fatal(err)
	}
}

func (l *leader) live() []*nomad.Allocation {
	var out []*nomad.Allocation
	for a := range l.store.Snapshot().AllocsByJob(nil, "default", "j") {
		if !a.TerminalStatus() {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *nomad.Allocation) int { return a.Index() - b.Index() })
	return out
}

// TestOnRealState runs the life cycle of a job on the store of the servers.
func TestOnRealState(t *testing.T) {
	l := &leader{t: t, store: state.New(slog.New(slog.DiscardHandler)), index: 10}
	w := newWorld(t)
	l.must(l.store.RegisterNode(l.next(), &message.NodeRegisterRequest{Node: w.addNode("n1")}))
	l.must(l.store.RegisterJob(l.next(),
		&message.JobRegisterRequest{Job: job(nomad.JobTypeService, 3, rolling(1), policy(nomad.ReschedulePolicy{Unlimited: true}))}))
	l.process()
	wantNames(t, l.live(), "j.g[0]", "j.g[1]", "j.g[2]")
	snap := l.store.Snapshot()
	first := snap.LatestDeployment(nil, "default", "j")
	if first == nil || first.TaskGroups["g"].PlacedAllocs != 3 {
		t.Fatalf("deployment = %+v", first)
	}
	l.process()
	if got := l.store.Snapshot().Index(); got != snap.Index() {
		t.Errorf("an evaluation with nothing to do wrote index %d", got)
	}

	var healthy []string
	for _, a := range l.live() {
		healthy = append(healthy, a.ID)
	}
	l.must(l.store.SetAllocHealth(l.next(), &message.ApplyDeploymentAllocHealthRequest{
		DeploymentAllocHealthRequest: message.DeploymentAllocHealthRequest{DeploymentID: first.ID, HealthyAllocationIDs: healthy},
		Timestamp:                    time.Now()}))
	l.process()
	if d := l.store.Snapshot().Deployment(nil, first.ID); d.Status != nomad.DeploymentStatusSuccessful {
		t.Fatalf("deployment = %+v, want it successful", d)
	}

	failed := *l.live()[0]
	failed.ClientStatus = nomad.AllocClientStatusFailed
	l.must(l.store.UpdateAllocsFromClient(l.next(), &message.AllocUpdateRequest{Alloc: []*nomad.Allocation{&failed}}))
	l.process()
	replacement := l.live()[0]
	if old := l.store.Snapshot().Alloc(nil, failed.ID); old.NextAllocation != replacement.ID || replacement.PreviousAllocation != old.ID {
		t.Errorf("failed %+v, replacement %+v", old, replacement)
	}

	again := job(nomad.JobTypeService, 3, rolling(1), policy(nomad.ReschedulePolicy{Unlimited: true}), newCommand)
	l.must(l.store.RegisterJob(l.next(), &message.JobRegisterRequest{Job: again}))
	l.process()
	if got := versions(l.live()); got[0] != 2 || got[1] != 1 {
		t.Errorf("live by version = %v, want one step of the update", got)
	}
	stopped := codec.Copy(again)
	stopped.Stop = true
	l.must(l.store.RegisterJob(l.next(), &message.JobRegisterRequest{Job: stopped}))
	l.process()
	wantNames(t, l.live())
}
