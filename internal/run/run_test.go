package run_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/internal/run"
)

// until returns what ended ctx, as every Run does.
func until(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAll(t *testing.T) {
	broken := errors.New("broken")
	fail := func(context.Context) error { return broken }
	done := func(context.Context) error { return nil }
	for name, c := range map[string]struct {
		fns  []func(context.Context) error
		want error
	}{
		"nothing to do":          {nil, nil},
		"all done":               {[]func(context.Context) error{done, done}, nil},
		"one fails, others end":  {[]func(context.Context) error{until, fail, until}, broken},
		"one done, another goes": {[]func(context.Context) error{done, fail, until}, broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // fails when a goroutine is left
				if err := run.All(t.Context(), c.fns...); !errors.Is(err, c.want) {
					t.Errorf("All() = %v, want %v", err, c.want)
				}
			})
		})
	}
}

func TestAllEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan error)
		go func() { returned <- run.All(ctx, until, until) }()
		synctest.Wait()
		select {
		case err := <-returned:
			t.Fatalf("All() = %v before the context ended", err)
		default:
		}
		cancel()
		if err := <-returned; !errors.Is(err, context.Canceled) {
			t.Errorf("All() = %v, want context.Canceled", err)
		}
	})
}
