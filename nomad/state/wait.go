package state

import (
	"context"
	"time"

	"github.com/hashicorp/go-memdb"
)

// Wait waits for a change in ws, until a time (zero: without limit), or for the end of ctx. The caller
// reads the state again, whatever ended the wait.
func Wait(ctx context.Context, ws memdb.WatchSet, until time.Time) {
	if !until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	_ = ws.WatchCtx(ctx) // its error says only that ctx ended
}
