package engine

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/render"
)

const (
	// restBetween is the minimum time between two reads of the same data.
	restBetween = 100 * time.Millisecond
	// fileInterval is the interval at which files are checked.
	fileInterval = 2 * time.Second
)

// source returns data whose index is above the given one, 0 for any, with its index.
type source func(ctx context.Context, index uint64) (datum, uint64, error)

// watchAPI sends each value of data that is not a file, until ctx ends.
func (e *engine) watchAPI(ctx context.Context, k key, fetch source) {
	var index uint64
	for failures := 0; ; {
		begun := time.Now()
		from := index
		if failures > 0 {
			from = 0 // answered at once: a blocking query would show the end of an outage only with the next change
		}
		v, next, err := fetch(ctx, from)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failures++
			if !e.send(ctx, reading{key: k, err: err, failures: failures}) || backoff.Sleep(ctx, delay(e.retryOf(k), failures)) != nil {
				return
			}
			continue
		}
		if next != index || from == 0 {
			if !e.send(ctx, reading{key: k, value: v}) {
				return
			}
		}
		failures = 0
		if next < index {
			next = 0 // the servers were restored from a snapshot
		}
		index = next
		if from != 0 && backoff.Sleep(ctx, restBetween-time.Since(begun)) != nil {
			return
		}
	}
}

// watchFile sends the content of a file after each change of its size or time.
func (e *engine) watchFile(ctx context.Context, k key, last interface {
	Size() int64
	ModTime() time.Time
}) {
	for failures := 0; backoff.Sleep(ctx, fileInterval) == nil; {
		f, info, err := e.files.open(k.path)
		if err == nil {
			f.Close() // only its metadata is used
			if failures == 0 && info.Size() == last.Size() && info.ModTime().Equal(last.ModTime()) {
				continue
			}
		}
		n := reading{key: k}
		if err == nil {
			err = n.value.readFile(e.files, k.path)
		}
		if err != nil {
			failures++
			n.err, n.failures = err, failures
		} else {
			failures, last = 0, n.value.info
		}
		if !e.send(ctx, n) {
			return
		}
	}
}

// send passes a reading to run. It reports whether the watcher should continue.
func (e *engine) send(ctx context.Context, n reading) bool {
	select {
	case e.readings <- n:
		return true
	case <-ctx.Done():
		return false
	}
}

// delay returns the delay after the nth failure in a row.
func delay(r render.Retry, n int) time.Duration { return max(r.Delay(n), restBetween) }
