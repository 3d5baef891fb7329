package every_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/internal/every"
)

func TestTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		var calls []time.Duration
		err := every.Tick(ctx, time.Second, func() { calls = append(calls, time.Since(begun)) })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Tick() = %v, want the error of its context", err)
		}
		if len(calls) != 3 || calls[0] != time.Second {
			t.Errorf("calls after %v, want one at the end of each second", calls)
		}
	})
}
