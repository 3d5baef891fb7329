package plan_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/plan"
)

// A worker whose plan waits longer than the nack timeout keeps its evaluation.
func TestQueue_NackTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := broker.New(broker.Config{})
		b.Enable()
		log := testlog.New(nil)
		log.Before(func(_ context.Context, typ message.CommandType) error {
			if typ == message.ApplyPlanResultsRequestType {
				time.Sleep(10 * time.Minute) // the log is slow
			}
			return nil
		})
		a := plan.New(plan.Config{Store: log.Store, Raft: log, Minter: &minter{}, Evals: b, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.Run(ctx)
		}()
		synctest.Wait()
		defer func() { cancel(); <-done }()

		node, job := log.Node(t), log.Job(t, nomad.JobTypeBatch, 1)
		b.Enqueue(log.Eval(t, job))
		eval, token := b.TryDequeue([]string{nomad.JobTypeBatch})
		placed := testlog.NewAlloc(job, node)
		p := &nomad.Plan{EvalID: eval.ID, EvalToken: token, Job: job, SnapshotIndex: log.Snapshot().Index(),
			NodeAllocation: map[string][]*nomad.Allocation{node.ID: {placed}}}
		if _, err := a.Submit(ctx, p); err != nil {
			t.Fatalf("Submit() = %v", err)
		}
		if got, ok := b.Outstanding(eval.ID); !ok || got != token {
			t.Error("the worker lost its evaluation while its plan was committed")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, ok := b.Outstanding(eval.ID); ok {
			t.Error("the timeout did not start again after the plan")
		}
	})
}
