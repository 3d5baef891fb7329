package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/worker"
)

// pool runs a pool of n workers with all types of evaluations until the end of the test.
func pool(t *testing.T, l *leader, n int) *worker.Pool {
	t.Helper()
	p := worker.NewPool(n, worker.AllTypes(), func(types []string) *worker.Worker {
		return worker.New(worker.Config{RPC: l, Store: l.Store, Region: "global", Schedulers: types, Log: slog.New(slog.DiscardHandler)})
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
	})
	return p
}

// A pool without workers processes nothing. Workers of one type leave the evaluations of the others.
func TestPool_Resize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader()
		l.Node(t)
		p := pool(t, l, 2)
		synctest.Wait()
		before := p.Status()
		if len(before) != 2 || before[0].Status != "Started" {
			t.Fatalf("the workers are %+v, want two that have started", before)
		}
		p.Set(3, worker.AllTypes())
		if after := p.Status(); len(after) != 3 || after[0].ID != before[0].ID || after[1].ID != before[1].ID {
			t.Errorf("the workers are %+v, want one in addition to %+v", after, before)
		}
		p.Set(0, worker.AllTypes())
		synctest.Wait()
		l.Eval(t, l.Job(t, nomad.JobTypeService, 1))
		batch := l.Eval(t, l.Job(t, nomad.JobTypeBatch, 1))
		synctest.Wait()
		if got := l.broker.Stats(); got.Ready != 2 || len(p.Status()) != 0 || !slices.Equal(p.Types(), worker.AllTypes()) {
			t.Fatalf("without workers: %+v, %d workers, types %q", got, len(p.Status()), p.Types())
		}
		p.Set(1, []string{nomad.JobTypeBatch})
		l.want(t, "Eval.Finish")
		synctest.Wait()
		if got := l.Snapshot().Eval(nil, batch.ID); got.Status != nomad.EvalStatusComplete {
			t.Errorf("the evaluation of the batch job is %s", got.Status)
		}
		if got := l.broker.Stats(); got.Ready != 1 || got.Unacked != 0 {
			t.Errorf("the evaluation of the service: %+v, want it ready", got)
		}
	})
}

// A worker that is not needed any more finishes its evaluation, and takes no other.
func TestPool_Retire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader()
		l.Node(t)
		planned, release := make(chan bool), make(chan bool)
		l.partial = func(p *nomad.Plan) *nomad.PlanResult {
			planned <- true
			<-release
			return &nomad.PlanResult{NodeAllocation: p.NodeAllocation}
		}
		p := pool(t, l, 1)
		l.Eval(t, l.Job(t, nomad.JobTypeBatch, 1))
		<-planned
		l.Eval(t, l.Job(t, nomad.JobTypeBatch, 1))
		p.Set(0, worker.AllTypes())
		close(release)
		l.want(t, "Eval.Finish")
		synctest.Wait()
		if got := l.broker.Stats(); got.Ready != 1 || got.Unacked != 0 {
			t.Errorf("the other evaluation: %+v, want it ready", got)
		}
	})
}
