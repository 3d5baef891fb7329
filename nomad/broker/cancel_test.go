package broker_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
)

// An evaluation that is canceled in state while it is delayed or pending is never delivered.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := enabled()
		o := broker.NewObserver(b, broker.NewBlocked(b), func(string) (string, bool) { return "", false },
			func(nomad.NamespacedID) bool { return false })
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

// A stopped job has no evaluation that waits for a time: none when its stop is processed, and none that comes later or
// that a new leader loads. A job that runs keeps its own, and so does a retry of what failed.
func TestDiscard(t *testing.T) {
	for name, restored := range map[string]bool{"stopped": false, "restored by a new leader": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stopped := restored
				written := make(chan *nomad.Evaluation, 10)
				b, bl := enabledBlocked()
				o := broker.NewObserver(b, bl, func(string) (string, bool) { return "", false },
					func(job nomad.NamespacedID) bool { return stopped && job.ID == "a" })
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				reaper := broker.NewReaper(broker.ReaperConfig{Broker: b, Blocked: bl, Log: slog.New(slog.DiscardHandler),
					JobExists: func(string, string) bool { return true },
					Write: func(_ context.Context, evals []*nomad.Evaluation) error {
						for _, e := range evals {
							written <- e
						}
						return nil
					}})
				go reaper.Run(ctx)
				later := func(job, trigger string) *nomad.Evaluation {
					e := newEval(job)
					e.TriggeredBy, e.WaitUntil = trigger, time.Now().Add(time.Hour)
					return e
				}
				disconnect, retry := later("a", nomad.EvalTriggerMaxDisconnectTimeout), later("a", nomad.EvalTriggerFailedFollowUp)
				other := later("b", nomad.EvalTriggerMaxDisconnectTimeout)
				o.EvalsUpserted(1, []*nomad.Evaluation{disconnect, retry, other})
				stopped = true
				done := newEval("a")
				done.Status = nomad.EvalStatusComplete
				if !restored {
					o.EvalsUpserted(2, []*nomad.Evaluation{done})
				}
				synctest.Wait()
				if n := len(written); n != 1 {
					t.Fatalf("%d evaluations are canceled, want 1", n)
				}
				if e := <-written; e.ID != disconnect.ID || e.Status != nomad.EvalStatusCancelled {
					t.Errorf("evaluation %s is %s, want that of the disconnected client canceled", e.TriggeredBy, e.Status)
				}
				if n := b.Stats().Waiting; n != 2 {
					t.Errorf("%d evaluations wait, want the retry and that of the other job", n)
				}
			})
		})
	}
}
