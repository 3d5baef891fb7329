package safefs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

func TestAwait(t *testing.T) {
	failed, stopped := errors.New("failed"), errors.New("stopped")
	if err := safefs.Await(t.Context(), func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("Await() = %v, want %v", err, failed)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopped)
	if err := safefs.Await(ctx, func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("Await() of a call that ends soon = %v, want %v", err, failed)
	}
	answer := make(chan struct{})
	defer close(answer)
	if err := safefs.Await(ctx, func() error { <-answer; return nil }); !errors.Is(err, stopped) {
		t.Errorf("Await() of a call that does not end = %v, want %v", err, stopped)
	}
}
