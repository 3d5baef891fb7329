package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
)

// An evaluation that is canceled in state while it is delayed or pending is never delivered.
func TestCanceledInState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := enabled()
		o := broker.NewObserver(b, broker.NewBlocked(b), func(string) (string, bool) { return "", false })
		upsert := func(e *nomad.Evaluation, status string) {
			out := *e
			out.Status = status
			o.EvalsUpserted(1, []*nomad.Evaluation{&out})
		}
		later := newEval("a")
		later.WaitUntil = time.Now().Add(time.Hour)
		upsert(later, nomad.EvalStatusPending)
		if n := b.Stats().Waiting; n != 1 {
			t.Fatalf("%d delayed evaluations, want 1", n)
		}
		upsert(later, nomad.EvalStatusCancelled)
		if n := b.Stats().Waiting; n != 0 {
			t.Errorf("%d delayed evaluations after the cancellation", n)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		wantNone(t, b, service)

		// A pending one makes way for the others of its job.
		first, second, third := newEval("b"), newEval("b"), newEval("b")
		upsert(first, nomad.EvalStatusPending)
		_, token := dequeue(t, b, service)
		upsert(second, nomad.EvalStatusPending)
		upsert(third, nomad.EvalStatusPending)
		upsert(third, nomad.EvalStatusCancelled)
		upsert(first, nomad.EvalStatusCancelled) // a worker has it
		if err := b.Ack(first.ID, token); err != nil {
			t.Fatal(err)
		}
		if e, token := dequeue(t, b, service); e.ID != second.ID {
			t.Errorf("delivered %s, want the evaluation that was not canceled", e.ID)
		} else if err := b.Nack(e.ID, token); err != nil {
			t.Fatal(err)
		}

		// One that was delayed by a nack holds its job until then.
		fourth := newEval("b")
		upsert(fourth, nomad.EvalStatusPending)
		wantNone(t, b, service)
		upsert(second, nomad.EvalStatusCancelled)
		if e, _ := dequeue(t, b, service); e.ID != fourth.ID {
			t.Errorf("delivered %s, want the next of the job", e.ID)
		}
	})
}
