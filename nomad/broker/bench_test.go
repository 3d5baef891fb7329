package broker_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

func BenchmarkEnqueueDequeueAck(b *testing.B) {
	br := enabled()
	evals := make([]*nomad.Evaluation, 1000)
	for i := range evals {
		evals[i] = newEval(fmt.Sprint(i))
		br.Enqueue(evals[i]) // the queue is never short
	}
	b.ReportAllocs()
	for b.Loop() {
		e, token, err := br.Dequeue(b.Context(), service)
		if err != nil {
			b.Fatal(err)
		}
		if err := br.Ack(e.ID, token); err != nil {
			b.Fatal(err)
		}
		br.Enqueue(e)
	}
}

// BenchmarkHandOver measures the time from Enqueue to a waiting worker.
func BenchmarkHandOver(b *testing.B) {
	br := enabled()
	taken := make(chan struct{})
	go func() {
		for {
			e, token, err := br.Dequeue(b.Context(), service)
			if err != nil {
				return
			}
			if err := br.Ack(e.ID, token); err != nil {
				b.Error(err)
			}
			taken <- struct{}{}
		}
	}()
	e := newEval("a")
	for b.Loop() {
		br.Enqueue(e)
		<-taken
	}
	br.Disable()
}
