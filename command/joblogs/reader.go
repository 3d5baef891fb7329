package joblogs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/backoff"
)

// Delays of a reader.
const (
	retryFirst  = 250 * time.Millisecond
	retryMax    = 10 * time.Second
	verifyLimit = 5 * time.Second
	// caughtUpAfter is the quiet time after which the stored part of a log was read.
	caughtUpAfter = 300 * time.Millisecond
	// retriesWhenOver limits the attempts to read the log of an allocation that is over.
	retriesWhenOver = 5
)

var (
	// errTurn ends a stream because the turn of its reader is over.
	errTurn = errors.New("the turn is over")
	// errMissed ends a stream that began behind the position.
	errMissed = errors.New("the stream began behind the position")
)

// turns hands out the right to have a stream.
type turns struct {
	free    chan struct{}
	waiting atomic.Int64
}

func newTurns(n int) *turns { return &turns{free: make(chan struct{}, n)} }

func (t *turns) take(ctx context.Context) error {
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	select {
	case t.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turns) give() { <-t.free }

// reader prints one log.
type reader struct {
	client *api.Client
	opts   *Options
	alloc  *api.Allocation // ID and namespace
	task   string
	kind   string
	follow bool
	turns  *turns
	lines  *lines
	at     cursor
	over   atomic.Bool // the allocation is terminal
}

// run prints the log until its end. It retries after lost connections.
func (r *reader) run(ctx context.Context) error {
	again, failures := backoff.Backoff{Min: retryFirst, Max: retryMax}, 0
	for {
		before := r.at.offset
		err := r.stream(ctx)
		if r.at.offset != before {
			failures = 0
			again.Reset()
		}
		switch {
		case ctx.Err() != nil:
			return errors.Join(r.lines.end(), ctx.Err())
		case err == nil:
			return r.lines.end()
		case errors.Is(err, errTurn):
			continue
		case errors.Is(err, errMissed):
			r.at.missed()
			continue
		}
		failures++
		if permanent(err) || !r.follow || r.over.Load() && failures >= retriesWhenOver {
			return errors.Join(fmt.Errorf("Error reading %s of task %q of allocation %s: %w", r.kind, r.task, r.alloc.ID, err), r.lines.end())
		}
		again.Wait(ctx) // the next attempt fails if ctx ended
	}
}

// permanent reports whether a further attempt has the same result.
func permanent(err error) bool {
	switch code := api.StatusCode(err); code {
	case http.StatusTooManyRequests, http.StatusRequestTimeout:
		return false
	default:
		return code >= 400 && code < 500
	}
}

// stream reads the log during one turn. It returns nil at the end of the log.
func (r *reader) stream(ctx context.Context) error {
	if err := r.turns.take(ctx); err != nil {
		return err
	}
	defer r.turns.give()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	origin, offset := r.opts.origin()
	verified := false
	if r.at.begun {
		origin = api.OriginStart
		offset, verified = r.at.reopen()
	}
	q := (&api.QueryOptions{Namespace: r.alloc.Namespace}).WithContext(ctx)
	frames, errs := r.client.AllocFS().Logs(r.alloc, r.follow, r.task, r.kind, origin, offset, nil, q)
	turn := &turn{reader: r, began: time.Now(), last: time.Now(), verify: verified}
	tick := time.NewTicker(caughtUpAfter)
	defer tick.Stop()
	for {
		select {
		case f, ok := <-frames:
			if !ok {
				return turn.closed(errs)
			}
			if err := turn.frame(f); err != nil {
				return err
			}
		case now := <-tick.C:
			if err := turn.tick(now); err != nil {
				return err
			}
		}
	}
}

// turn is one stream of a reader.
type turn struct {
	*reader
	began, last time.Time
	verify      bool // no frame has come yet, and one must
}

func (t *turn) frame(f *api.StreamFrame) error {
	data, ok := t.at.take(f)
	if !ok {
		return errMissed
	}
	t.verify, t.last = false, time.Now()
	return t.lines.add(data)
}

// tick ends a stream that has no data at its position, or whose turn is over.
func (t *turn) tick(now time.Time) error {
	quiet := now.Sub(t.last)
	switch {
	case t.verify && now.Sub(t.began) > verifyLimit:
		return errMissed
	case t.turns.waiting.Load() > 0 && (quiet >= quietTurn || now.Sub(t.began) >= fullTurn) && !t.verify:
		return errTurn
	case t.follow && quiet >= caughtUpAfter:
		return t.lines.caughtUp()
	}
	return nil
}

// closed returns why the frames ended.
func (t *turn) closed(errs <-chan error) error {
	select {
	case err := <-errs:
		return err
	default:
	}
	if t.verify {
		return errMissed
	}
	return nil
}
