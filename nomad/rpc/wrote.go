package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// wroteFlag records whether the handler of a call has written to the log.
type wroteFlag struct{ atomic.Bool }

type wroteKey struct{}

// recordWrites returns a context that records calls of Wrote.
func recordWrites(ctx context.Context) (context.Context, *wroteFlag) {
	w := &wroteFlag{}
	return context.WithValue(ctx, wroteKey{}, w), w
}

// Wrote records that a handler has written to the Raft log, or changed something on a node. The call must then not be
// retried, whatever happens to later writes.
func Wrote(ctx context.Context) {
	if w, ok := ctx.Value(wroteKey{}).(*wroteFlag); ok {
		w.Store(true)
	}
}

// asFinal turns a retryable error after the first of several writes into one that is not
// retryable.
func (w *wroteFlag) asFinal(err error) error {
	if err == nil || !w.Load() || !errors.Is(err, apierror.ErrNoLeader) && !errors.Is(err, apierror.ErrNotReady) {
		return err
	}
	return fmt.Errorf("%w: leadership was lost between two writes", apierror.ErrMaybeApplied)
}
