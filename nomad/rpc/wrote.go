package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/open-nomad/open-nomad/nomad"
)

// wroteFlag says whether the handler of a call has written something.
type wroteFlag struct{ atomic.Bool }

type wroteKey struct{}

// noting returns a context in which Wrote notes that something was written.
func noting(ctx context.Context) (context.Context, *wroteFlag) {
	w := &wroteFlag{}
	return context.WithValue(ctx, wroteKey{}, w), w
}

// Wrote notes that a handler has written to the log: whatever happens to what it
// writes after that, the call must not be made again.
func Wrote(ctx context.Context) {
	if w, ok := ctx.Value(wroteKey{}).(*wroteFlag); ok {
		w.Store(true)
	}
}

// onlyOnce turns an error that lets a call be made again into one that does not,
// after the first of several writes.
func (w *wroteFlag) onlyOnce(err error) error {
	if err == nil || !w.Load() || !errors.Is(err, nomad.ErrNoLeader) && !errors.Is(err, nomad.ErrNotReady) {
		return err
	}
	return fmt.Errorf("%w: leadership was lost between two writes", nomad.ErrMaybeApplied)
}
