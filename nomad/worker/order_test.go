package worker_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

// TestPlacedGoFirst holds that on a busy machine, here one of a single core, the node
// that waits for allocations hears of them before the worker writes the status of the
// evaluation. The runtime looks to others now and then, so it counts what is usual.
func TestPlacedGoFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const rounds = 20
	l := newLeader()
	node := l.Node(t)
	var heard atomic.Bool
	first := 0 // written in Before, read when the worker has ended
	l.Before(func(_ context.Context, typ nomad.MessageType) error {
		if typ == nomad.EvalUpdateRequestType && heard.Load() {
			first++
		}
		return nil
	})
	stop := run(t, l, nil)
	for range rounds {
		heard.Store(false)
		ws := memdb.NewWatchSet()
		l.Snapshot().AllocsByNode(ws, node.ID)
		waits, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			close(waits)
			if err := ws.WatchCtx(t.Context()); err != nil {
				t.Errorf("wait for allocations: %v", err)
			}
			heard.Store(true)
		}()
		<-waits
		l.Eval(t, l.Job(t, nomad.JobTypeBatch, 1))
		l.want(t, "Eval.Ack")
		<-done
	}
	stop()
	if first < rounds/2 {
		t.Errorf("the node heard first in %d of %d rounds", first, rounds)
	}
}
