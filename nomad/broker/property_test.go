package broker_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
)

// TestBroker_RandomHistory applies random operations to random evaluations. At each step at most
// one evaluation of a job is outstanding. At the end each evaluation has ended once: acknowledged,
// failed or canceled.
func TestBroker_RandomHistory(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { interleave(t, seed) })
		})
	}
}

type dequeued struct {
	eval  *nomad.Evaluation
	token string
}

func interleave(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := enabled()
	ended := map[string]string{}
	end := func(e *nomad.Evaluation, how string) {
		if was := ended[e.ID]; was != "" {
			t.Fatalf("evaluation ended twice: %s, then %s", was, how)
		}
		ended[e.ID] = how
	}
	out := map[string]dequeued{} // by job
	all := 0
	take := func(types []string) {
		e, token := b.TryDequeue(types)
		if e == nil {
			return
		}
		if types[0] == broker.FailedQueue {
			must(t, b.Ack(e.ID, token))
			end(e, "failed")
			return
		}
		if other, ok := out[e.JobID]; ok {
			t.Fatalf("evaluations %s and %s of job %s are both outstanding", other.eval.ID, e.ID, e.JobID)
		}
		out[e.JobID] = dequeued{e, token}
	}
	anyHeld := func() (dequeued, bool) {
		for job, h := range out {
			delete(out, job)
			return h, true
		}
		return dequeued{}, false
	}
	for range 600 {
		switch rng.IntN(8) {
		case 0, 1:
			e := newEval(fmt.Sprint("job", rng.IntN(6)))
			e.Priority, e.ModifyIndex = 40+rng.IntN(20), rng.Uint64N(50)
			if rng.IntN(4) == 0 {
				e.Wait = time.Duration(rng.Int64N(int64(time.Minute)))
			}
			b.Enqueue(e)
			b.Enqueue(e)
			all++
		case 2, 3:
			take(service)
		case 4:
			take(failed)
		case 5:
			if h, ok := anyHeld(); ok {
				must(t, b.Ack(h.eval.ID, h.token))
				end(h.eval, "acknowledged")
			}
		case 6:
			if h, ok := anyHeld(); ok {
				must(t, b.Nack(h.eval.ID, h.token))
			}
		case 7:
			time.Sleep(time.Duration(rng.Int64N(int64(5 * time.Second))))
			synctest.Wait()
			for job, h := range out { // the nack timer returns those held too long
				if token, ok := b.Outstanding(h.eval.ID); !ok || token != h.token {
					delete(out, job)
				}
			}
		}
	}
	for range 10 * all { // now finish everything
		for h, ok := anyHeld(); ok; h, ok = anyHeld() {
			if b.Ack(h.eval.ID, h.token) == nil {
				end(h.eval, "acknowledged")
			}
		}
		take(service)
		take(failed)
		time.Sleep(time.Second)
		synctest.Wait()
	}
	s := b.Stats()
	canceled := s.Cancelable
	if len(ended)+canceled != all || s.Ready+s.Unacked+s.Pending+s.Waiting != 0 {
		t.Errorf("%d evaluations: %d ended, %d canceled, left %+v", all, len(ended), canceled, s)
	}
}

// TestConcurrentWorkers uses the broker from many goroutines at once.
func TestConcurrentWorkers(t *testing.T) {
	const jobs, each, workers = 20, 40, 16
	b := enabled()
	var mu sync.Mutex
	done := map[string]bool{}
	busy := map[string]bool{}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				e, token, err := b.Dequeue(t.Context(), service)
				if err != nil {
					return
				}
				mu.Lock()
				if busy[e.JobID] {
					t.Errorf("two evaluations of %s are outstanding", e.JobID)
				}
				busy[e.JobID] = true
				mu.Unlock()
				mu.Lock()
				busy[e.JobID] = false
				done[e.ID] = true
				mu.Unlock()
				if err := b.Ack(e.ID, token); err != nil {
					t.Errorf("Ack: %v", err)
				}
			}
		})
	}
	var feeders sync.WaitGroup
	for j := range jobs {
		feeders.Go(func() {
			for range each {
				b.Enqueue(newEval(fmt.Sprint("job", j)))
			}
		})
	}
	feeders.Wait()
	for {
		s := b.Stats()
		mu.Lock()
		n := len(done)
		mu.Unlock()
		if s.Ready+s.Unacked+s.Pending == 0 {
			if n+s.Cancelable != jobs*each {
				t.Errorf("%d done and %d canceled of %d", n, s.Cancelable, jobs*each)
			}
			break
		}
	}
	b.Disable()
	wg.Wait()
}
