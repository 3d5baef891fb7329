package broker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

var (
	service = []string{nomad.JobTypeService}
	failed  = []string{broker.FailedQueue}
)

func newEval(job string) *nomad.Evaluation {
	return &nomad.Evaluation{
		ID:        nomad.NewID(),
		Namespace: nomad.DefaultNamespace,
		Priority:  50,
		Type:      nomad.JobTypeService,
		JobID:     job,
		Status:    nomad.EvalStatusPending,
	}
}

func enabled() *broker.Broker {
	b := broker.New(broker.Config{})
	b.Enable()
	return b
}

// dequeue fails the test unless an evaluation is ready.
func dequeue(t *testing.T, b *broker.Broker, types []string) (*nomad.Evaluation, string) {
	t.Helper()
	e, token, err := tryDequeue(b, types)
	if err != nil {
		t.Fatalf("Dequeue(%v) = %v, want an evaluation", types, err)
	}
	return e, token
}

// tryDequeue does not wait.
func tryDequeue(b *broker.Broker, types []string) (*nomad.Evaluation, string, error) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return b.Dequeue(ctx, types)
}

func wantNone(t *testing.T, b *broker.Broker, types []string) {
	t.Helper()
	if e, _, err := tryDequeue(b, types); !errors.Is(err, context.Canceled) {
		t.Fatalf("Dequeue(%v) = %v, %v, want nothing", types, e, err)
	}
	if e, token := b.TryDequeue(types); e != nil || token != "" {
		t.Fatalf("TryDequeue(%v) = %v, want nothing", types, e)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOrder(t *testing.T) {
	b := enabled()
	low, first, second, high := newEval("a"), newEval("b"), newEval("c"), newEval("d")
	low.Priority, high.Priority = 10, 90
	second.Type = nomad.JobTypeBatch
	for _, e := range []*nomad.Evaluation{low, first, second, high} {
		b.Enqueue(e)
	}
	both := []string{nomad.JobTypeBatch, nomad.JobTypeService}
	for i, want := range []*nomad.Evaluation{high, first, second, low} {
		if got, _ := dequeue(t, b, both); got != want {
			t.Errorf("evaluation %d is of job %s, want %s", i, got.JobID, want.JobID)
		}
	}
	wantNone(t, b, both)
}

// A new leader loads evaluations by ID. They are delivered by their creation.
func TestOrderOfCreation(t *testing.T) {
	b := enabled()
	for _, index := range []uint64{30, 10, 20} {
		e := newEval(fmt.Sprint("job", index))
		e.CreateIndex = index
		b.Enqueue(e)
	}
	for _, want := range []uint64{10, 20, 30} {
		if got, _ := dequeue(t, b, service); got.CreateIndex != want {
			t.Errorf("dequeued the evaluation of index %d, want %d", got.CreateIndex, want)
		}
	}
}

func TestTypes(t *testing.T) {
	b := enabled()
	b.Enqueue(newEval("a"))
	wantNone(t, b, []string{nomad.JobTypeBatch})
	dequeue(t, b, service)
}

func TestEnqueueTwice(t *testing.T) {
	b := enabled()
	e := newEval("a")
	b.Enqueue(e)
	b.Enqueue(codec.Copy(e))
	got, token := dequeue(t, b, service)
	b.Enqueue(codec.Copy(e))
	must(t, b.Ack(got.ID, token))
	wantNone(t, b, service)
	if s := b.Stats(); s.Ready+s.Unacked+s.Pending+s.Waiting != 0 {
		t.Errorf("Stats() = %+v, want nothing left", s)
	}
}

func TestEnqueue_OnePerJob(t *testing.T) {
	b := enabled()
	running, old, newest := newEval("a"), newEval("a"), newEval("a")
	old.ModifyIndex, newest.ModifyIndex = 5, 9
	other := newEval("a")
	other.Namespace = "elsewhere"
	for _, e := range []*nomad.Evaluation{running, old, newest} {
		b.Enqueue(e)
	}
	got, token := dequeue(t, b, service)
	if got != running {
		t.Fatalf("the first evaluation is not the first enqueued")
	}
	wantNone(t, b, service)
	b.Enqueue(other)
	if got, _ := dequeue(t, b, service); got != other {
		t.Errorf("a job of the same name in another namespace is blocked")
	}
	if s := b.Stats(); s.Pending != 2 || s.Unacked != 2 {
		t.Errorf("Stats() = %+v, want 2 pending, 2 unacked", s)
	}
	must(t, b.Ack(got.ID, token))
	if got, _ := dequeue(t, b, service); got != newest {
		t.Errorf("the newest of the pending evaluations did not come next")
	}
	if s := b.Stats(); s.Pending != 0 || s.Cancelable != 1 {
		t.Errorf("Stats() = %+v, want none pending, 1 cancelable", s)
	}
}

func TestPendingByPriority(t *testing.T) {
	b := enabled()
	running, high, newest := newEval("a"), newEval("a"), newEval("a")
	high.Priority, newest.ModifyIndex = 80, 9
	b.Enqueue(running)
	b.Enqueue(high)
	b.Enqueue(newest)
	got, token := dequeue(t, b, service)
	must(t, b.Ack(got.ID, token))
	if got, _ := dequeue(t, b, service); got != high {
		t.Errorf("the pending evaluation of the highest priority did not come next")
	}
}

func TestTokens(t *testing.T) {
	b := enabled()
	e := newEval("a")
	b.Enqueue(e)
	if err := b.Ack(e.ID, "x"); !errors.Is(err, broker.ErrNotOutstanding) {
		t.Errorf("Ack of a ready evaluation = %v, want ErrNotOutstanding", err)
	}
	_, token := dequeue(t, b, service)
	for name, fn := range map[string]func(id, token string) error{
		"Ack": b.Ack, "Nack": b.Nack, "OutstandingReset": b.OutstandingReset,
	} {
		if err := fn(e.ID, "x"); !errors.Is(err, broker.ErrTokenMismatch) {
			t.Errorf("%s with a wrong token = %v, want ErrTokenMismatch", name, err)
		}
		if err := fn("x", token); !errors.Is(err, broker.ErrNotOutstanding) {
			t.Errorf("%s of an unknown evaluation = %v, want ErrNotOutstanding", name, err)
		}
	}
	if got, ok := b.Outstanding(e.ID); !ok || got != token {
		t.Errorf("Outstanding() = %q, %v, want %q", got, ok, token)
	}
	must(t, b.Ack(e.ID, token))
	if _, ok := b.Outstanding(e.ID); ok {
		t.Errorf("an acknowledged evaluation is outstanding")
	}
}

func TestNackDelaysAndLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := enabled()
		e := newEval("a")
		b.Enqueue(e)
		b.Enqueue(newEval("a")) // waits until the first has failed for good
		for _, wait := range []time.Duration{time.Second, 20 * time.Second} {
			_, token := dequeue(t, b, service)
			must(t, b.Nack(e.ID, token))
			time.Sleep(wait - time.Nanosecond)
			synctest.Wait()
			wantNone(t, b, service)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
		}
		_, token := dequeue(t, b, service)
		must(t, b.Nack(e.ID, token))
		time.Sleep(time.Hour)
		synctest.Wait()
		wantNone(t, b, service)
		got, token := dequeue(t, b, failed)
		if got != e {
			t.Fatalf("the failed queue has %v, want %v", got, e)
		}
		must(t, b.Nack(e.ID, token)) // the leader could not write the failure
		_, token = dequeue(t, b, failed)
		must(t, b.Ack(e.ID, token))
		dequeue(t, b, service)
	})
}

func TestNackTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := enabled()
		e := newEval("a")
		b.Enqueue(e)
		_, token := dequeue(t, b, service)
		time.Sleep(59 * time.Second)
		must(t, b.OutstandingReset(e.ID, token))
		time.Sleep(59 * time.Second)
		if _, ok := b.Outstanding(e.ID); !ok {
			t.Fatal("OutstandingReset did not restart the timeout")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if err := b.Ack(e.ID, token); !errors.Is(err, broker.ErrNotOutstanding) {
			t.Errorf("Ack after the timeout = %v, want ErrNotOutstanding", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		dequeue(t, b, service)
	})
}

// The second and later deliveries wait (n-1) times the subsequent delay.
func TestNack_Backoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := broker.New(broker.Config{DeliveryLimit: 5})
		b.Enable()
		e := newEval("a")
		b.Enqueue(e)
		for _, wait := range []time.Duration{time.Second, 20 * time.Second, 40 * time.Second, 60 * time.Second} {
			_, token := dequeue(t, b, service)
			must(t, b.Nack(e.ID, token))
			time.Sleep(wait - time.Nanosecond)
			synctest.Wait()
			wantNone(t, b, service)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
		}
		dequeue(t, b, service)
	})
}

// The timeout stands still while the plan of the evaluation is queued, whatever its length.
func TestNackTimeout_Paused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := enabled()
		e := newEval("a")
		b.Enqueue(e)
		_, token := dequeue(t, b, service)
		if err := b.PauseNack(e.ID, "x"); !errors.Is(err, broker.ErrTokenMismatch) {
			t.Errorf("PauseNack with a wrong token = %v", err)
		}
		must(t, b.PauseNack(e.ID, token))
		time.Sleep(time.Hour)
		must(t, b.OutstandingReset(e.ID, token)) // the plan is checked
		time.Sleep(time.Hour)
		b.ResumeNack(e.ID, "x") // of an earlier delivery: no effect
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, ok := b.Outstanding(e.ID); !ok {
			t.Fatal("a paused evaluation was taken from its worker")
		}
		b.ResumeNack(e.ID, token)
		time.Sleep(59 * time.Second)
		must(t, b.OutstandingReset(e.ID, token))
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, ok := b.Outstanding(e.ID); ok {
			t.Error("the timeout did not start again")
		}
	})
}

// A pause ends with the delivery: the next worker has the normal timeout.
func TestNackTimeout_PauseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := enabled()
		e := newEval("a")
		b.Enqueue(e)
		_, token := dequeue(t, b, service)
		must(t, b.PauseNack(e.ID, token))
		must(t, b.Nack(e.ID, token))
		b.ResumeNack(e.ID, token)
		time.Sleep(time.Second)
		synctest.Wait()
		_, token = dequeue(t, b, service)
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, ok := b.Outstanding(e.ID); ok {
			t.Error("the second delivery has no timeout")
		}
		b.ResumeNack(e.ID, token)
	})
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := enabled()
		must(t, b.AwaitEnabled(t.Context()))
		disabled := make(chan error)
		go func() { disabled <- b.AwaitDisabled(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-disabled:
			t.Fatalf("AwaitDisabled() = %v while it is enabled", err)
		default:
		}
		b.Enable() // no change
		b.Disable()
		must(t, <-disabled)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.AwaitEnabled(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("AwaitEnabled() = %v, want a timeout", err)
		}
	})
}

func TestDelayed(t *testing.T) {
	for name, ask := range map[string]func(e *nomad.Evaluation){
		"until": func(e *nomad.Evaluation) { e.WaitUntil = time.Now().Add(time.Minute) },
		"wait":  func(e *nomad.Evaluation) { e.Wait = time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := enabled()
				e := newEval("a")
				ask(e)
				b.Enqueue(e)
				now := newEval("a") // not blocked by a delayed one
				b.Enqueue(now)
				if d := b.Delayed(); len(d) != 1 || d[0].Eval != e || !d[0].Until.Equal(time.Now().Add(time.Minute)) {
					t.Errorf("Delayed() = %v", d)
				}
				time.Sleep(30 * time.Second)
				_, token := dequeue(t, b, service)
				time.Sleep(30 * time.Second)
				synctest.Wait()
				wantNone(t, b, service) // its job is held now
				must(t, b.Ack(now.ID, token))
				if got, _ := dequeue(t, b, service); got != e {
					t.Errorf("dequeued %v, want the delayed evaluation", got)
				}
			})
		})
	}
}

func TestDequeueWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := enabled()
		ctx, cancel := context.WithCancel(t.Context())
		type got struct {
			e   *nomad.Evaluation
			err error
		}
		results := make(chan got, 3)
		for _, types := range [][]string{service, service, {nomad.JobTypeBatch}} {
			go func() {
				e, _, err := b.Dequeue(ctx, types)
				results <- got{e, err}
			}()
			synctest.Wait()
		}
		e := newEval("a")
		b.Enqueue(e)
		if r := <-results; r.e != e {
			t.Fatalf("a waiting Dequeue got %v", r)
		}
		cancel()
		for range 2 {
			if r := <-results; !errors.Is(r.err, context.Canceled) {
				t.Errorf("canceled Dequeue = %v", r)
			}
		}
		b.Enqueue(newEval("b"))
		dequeue(t, b, service) // not delivered to a canceled waiter
	})
}

func TestDisable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := enabled()
		dequeued, delayed := newEval("a"), newEval("b")
		delayed.Wait = time.Minute
		b.Enqueue(dequeued)
		b.Enqueue(delayed)
		_, token := dequeue(t, b, service)
		waits := make(chan error)
		go func() {
			_, _, err := b.Dequeue(t.Context(), service)
			waits <- err
		}()
		synctest.Wait()
		b.Disable()
		if err := <-waits; !errors.Is(err, broker.ErrDisabled) {
			t.Errorf("Dequeue of a broker that is disabled = %v", err)
		}
		if _, _, err := tryDequeue(b, service); !errors.Is(err, broker.ErrDisabled) {
			t.Errorf("Dequeue of a disabled broker = %v", err)
		}
		b.Enqueue(newEval("c"))
		if e, _ := b.TryDequeue(service); e != nil {
			t.Errorf("TryDequeue of a disabled broker = %v", e)
		}
		b.Enable()
		if err := b.Ack(dequeued.ID, token); !errors.Is(err, broker.ErrNotOutstanding) {
			t.Errorf("Ack of a dropped evaluation = %v", err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		wantNone(t, b, service)
		b.Enqueue(dequeued)
		dequeue(t, b, service)
	})
}

func TestUnblock_Outstanding(t *testing.T) {
	for name, end := range map[string]func(b *broker.Broker, id, token string) error{
		"acknowledged": (*broker.Broker).Ack,
		"nacked":       (*broker.Broker).Nack,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := enabled()
				e := newEval("a")
				b.Enqueue(e)
				_, token := dequeue(t, b, service)
				again := codec.Copy(e)
				b.EnqueueAll(map[*nomad.Evaluation]string{again: token})
				wantNone(t, b, service)
				must(t, end(b, e.ID, token))
				time.Sleep(time.Second)
				synctest.Wait()
				got, token := dequeue(t, b, service)
				if got != again {
					t.Errorf("dequeued %p, want the newer form %p", got, again)
				}
				must(t, b.Ack(e.ID, token))
				wantNone(t, b, service)
			})
		})
	}
}

// TestEnqueue_BlockedStatus receives a reblock from state, without a token.
func TestEnqueue_BlockedStatus(t *testing.T) {
	b := enabled()
	e := newEval("a")
	e.Status = nomad.EvalStatusBlocked
	b.Enqueue(e)
	_, token := dequeue(t, b, service)
	b.Enqueue(codec.Copy(e))
	must(t, b.Ack(e.ID, token))
	dequeue(t, b, service)
}

func TestStatsByScheduler(t *testing.T) {
	b := enabled()
	for i := range 3 {
		e := newEval(fmt.Sprint(i))
		if i == 0 {
			e.Type = nomad.JobTypeBatch
		}
		b.Enqueue(e)
	}
	dequeue(t, b, service)
	s := b.Stats()
	want := map[string]broker.SchedulerStats{nomad.JobTypeBatch: {Ready: 1}, nomad.JobTypeService: {Ready: 1, Unacked: 1}}
	for typ, w := range want {
		if s.ByScheduler[typ] != w {
			t.Errorf("ByScheduler[%s] = %+v, want %+v", typ, s.ByScheduler[typ], w)
		}
	}
}
