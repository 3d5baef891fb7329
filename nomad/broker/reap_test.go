package broker_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
)

// runReaper runs a Reaper and returns the evaluations that it writes.
// State has every job except "gone".
func runReaper(t *testing.T, b *broker.Broker, bl *broker.Blocked) <-chan []*nomad.Evaluation {
	t.Helper()
	written := make(chan []*nomad.Evaluation, 100)
	fail := true // the first write fails and is retried
	write := func(_ context.Context, evals []*nomad.Evaluation) error {
		if fail {
			fail = false
			return errors.New("no leader")
		}
		written <- evals
		return nil
	}
	exists := func(_, job string) bool { return job != "gone" }
	r := broker.NewReaper(broker.ReaperConfig{Broker: b, Blocked: bl, Write: write, JobExists: exists, Log: slog.New(slog.DiscardHandler)})
	go r.Run(t.Context())
	return written
}

func TestReapFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, bl := enabledBlocked()
		written := runReaper(t, b, bl)
		e := newEval("a")
		b.Enqueue(e)
		for range 3 {
			_, token := dequeue(t, b, service)
			must(t, b.Nack(e.ID, token))
			time.Sleep(20 * time.Second)
			synctest.Wait()
		}
		got := <-written
		if len(got) != 2 {
			t.Fatalf("wrote %d evaluations, want the failed one and its follow-up", len(got))
		}
		failed, next := got[0], got[1]
		if failed.ID != e.ID || failed.Status != nomad.EvalStatusFailed || failed.NextEval != next.ID ||
			failed.StatusDescription != "evaluation reached delivery limit (3)" {
			t.Errorf("failed evaluation is %+v", failed)
		}
		wait := time.Until(next.WaitUntil)
		if next.PreviousEval != e.ID || next.TriggeredBy != nomad.EvalTriggerFailedFollowUp || next.JobID != "a" ||
			next.Status != nomad.EvalStatusPending || wait < 0 || next.Wait < time.Minute || next.Wait > 6*time.Minute {
			t.Errorf("follow-up is %+v, in %v", next, wait)
		}
		synctest.Wait()
		if s := b.Stats(); s.Ready+s.Unacked != 0 {
			t.Errorf("Stats() = %+v, want it removed", s)
		}
	})
}

// A follow-up would fail in the same way if the job does not exist. Core evaluations are not in state.
func TestReapFailed_NoFollowUp(t *testing.T) {
	for _, tt := range []struct {
		name, jobType string
		want          int
	}{{"missing job", nomad.JobTypeService, 1}, {"core", nomad.JobTypeCore, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, bl := enabledBlocked()
				written := runReaper(t, b, bl)
				e := newEval("gone")
				e.Type = tt.jobType
				b.Enqueue(e)
				for range 3 {
					_, token := dequeue(t, b, []string{tt.jobType})
					must(t, b.Nack(e.ID, token))
					time.Sleep(time.Minute)
					synctest.Wait()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				select {
				case got := <-written:
					if len(got) != tt.want || got[0].Status != nomad.EvalStatusFailed || got[0].NextEval != "" {
						t.Errorf("wrote %+v, want %d evaluations without a follow-up", got, tt.want)
					}
				default:
					if tt.want > 0 {
						t.Error("wrote nothing")
					}
				}
				if s := b.Stats(); s.Ready+s.Unacked != 0 {
					t.Errorf("Stats() = %+v, want it removed", s)
				}
			})
		})
	}
}

func TestReapCancelable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, bl := enabledBlocked()
		written := runReaper(t, b, bl)
		first, needless, last := newEval("a"), newEval("a"), newEval("a")
		last.ModifyIndex = 7
		for _, e := range []*nomad.Evaluation{first, needless, last} {
			b.Enqueue(e)
		}
		_, token := dequeue(t, b, service)
		must(t, b.Ack(first.ID, token))
		got := <-written
		if len(got) != 1 || got[0].ID != needless.ID || got[0].Status != nomad.EvalStatusCancelled ||
			got[0].StatusDescription != "canceled after more recent eval was processed" {
			t.Errorf("wrote %+v, want the redundant one canceled", got)
		}
	})
}
