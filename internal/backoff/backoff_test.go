package backoff_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
)

func TestBackoff_Doubles(t *testing.T) {
	b := backoff.Backoff{Min: 3 * time.Second, Max: 10 * time.Second}
	var got []time.Duration
	for range 4 {
		got = append(got, b.Next())
	}
	want := []time.Duration{3 * time.Second, 6 * time.Second, 10 * time.Second, 10 * time.Second}
	if !slices.Equal(got, want) {
		t.Errorf("delays = %v, want %v", got, want)
	}
	b.Reset()
	if got := b.Next(); got != 3*time.Second {
		t.Errorf("delay after Reset = %v, want 3s", got)
	}
}

func TestBackoff_Wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backoff.Backoff{Min: time.Second, Max: time.Minute}
		begun := time.Now()
		for range 3 {
			if err := b.Wait(t.Context()); err != nil {
				t.Fatalf("Wait() = %v", err)
			}
		}
		if took := time.Since(begun); took != 7*time.Second {
			t.Errorf("three waits took %v, want 7s", took)
		}
	})
}

func TestSleep_Canceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if err := backoff.Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sleep() = %v, want %v", err, context.DeadlineExceeded)
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("Sleep() took %v, want 1s", took)
		}
		if err := backoff.Sleep(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sleep(0) = %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

func TestBackoff_WaitJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backoff.Backoff{Min: time.Minute, Max: time.Hour}
		waits := map[time.Duration]bool{}
		for range 20 {
			b.Reset()
			begun := time.Now()
			if err := b.WaitJitter(t.Context()); err != nil {
				t.Fatalf("WaitJitter() = %v", err)
			}
			took := time.Since(begun)
			if took < 30*time.Second || took > time.Minute {
				t.Errorf("a wait took %v, want 30s to 1m", took)
			}
			waits[took] = true
		}
		if len(waits) < 2 {
			t.Errorf("all waits took the same time: %v", waits)
		}
	})
}
