package turns

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// No more starts run at a time than there are turns. A start that hangs loses its turn.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := 2 * runtime.NumCPU()
		turns := newTurns(2, time.Second)
		var running, most, ended atomic.Int64
		for range 3 * limit {
			go func() {
				done := turns.Take()
				now := running.Add(1)
				most.Store(max(most.Load(), now))
				time.Sleep(100 * time.Millisecond)
				running.Add(-1)
				done()
				ended.Add(1)
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if most.Load() != int64(limit) || ended.Load() != int64(3*limit) {
			t.Errorf("%d starts ran at a time, %d ended; want %d and %d", most.Load(), ended.Load(), limit, 3*limit)
		}
		var hanging []func()
		for range limit {
			hanging = append(hanging, turns.Take())
		}
		began := time.Now()
		last := turns.Take()
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("the next start waited %v for starts that hang, want a second", waited)
		}
		for _, done := range append(hanging, last) {
			done() // a lost turn is not given back twice
		}
		for range limit {
			defer turns.Take()()
		}
		select {
		case turns.taken <- struct{}{}:
			t.Error("there are more turns than before")
		default:
		}
	})
}
