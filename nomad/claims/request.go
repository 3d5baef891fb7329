package claims

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// leadWithin limits the wait of a call of Release for a leader that begins its duties.
const leadWithin = 5 * time.Second

// request is a call of Release.
type request struct {
	key   volumeKey
	alloc string
	done  chan error // receives one value
}

// Release makes the next attempt to release the claim of an ended allocation, and waits for it. It returns nil if the claim
// is freed, or does not exist. Otherwise the error has the reason, and the attempts go on.
func (w *Watcher) Release(ctx context.Context, namespace, volume, alloc string) error {
	limited, cancel := context.WithTimeout(ctx, leadWithin)
	defer cancel()
	w.mu.Lock()
	leading := w.leading
	w.mu.Unlock()
	select {
	case <-leading:
	case <-limited.Done():
		return apierror.ErrNoLeader
	}
	req := &request{volumeKey{namespace, volume}, alloc, make(chan error, 1)}
	if !w.add(req) {
		return apierror.ErrNoLeader
	}
	select {
	case err := <-req.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the claim of allocation %s on volume %q is being released: %w", alloc, volume, ctx.Err())
	}
}

// add passes a request to Run. It reports whether Run runs.
func (w *Watcher) add(req *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.leading:
	default:
		return false
	}
	w.asked = append(w.asked, req)
	w.woken.Send()
	return true
}

// lead lets calls of Release begin.
func (w *Watcher) lead() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.leading)
}

// refuse ends the calls of Release: another server leads.
func (w *Watcher) refuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, req := range w.asked {
		req.done <- apierror.ErrNoLeader
	}
	w.asked, w.outcomes, w.leading = nil, nil, make(chan struct{})
}

// answer answers the requests whose claim is not to be released, and makes the claims of the others due. A request waits for
// an attempt of the same volume that has begun before it.
func (r *run) answer(snap *state.Snapshot, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = slices.DeleteFunc(r.asked, func(req *request) bool {
		v := r.volumes[req.key]
		if v != nil && !v.begun.IsZero() {
			return false
		}
		stored := snap.CSIVolume(nil, req.key.namespace, req.key.id)
		switch {
		case stored == nil || stored.ClaimOf(req.alloc) == nil:
			req.done <- nil
		case v == nil || v.claims[req.alloc] == nil:
			req.done <- fmt.Errorf("allocation %s has not ended, so its claim on volume %q is not released", req.alloc, req.key.id)
		default:
			c := v.claims[req.alloc]
			c.asked, c.due = append(c.asked, req), now
		}
		return true
	})
}
