package monitor

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Limits of the readers of a Hub.
const (
	maxReaders = 64
	bufferSize = 512      // lines of one reader
	maxLine    = 64 << 10 // longer lines are cut
)

// silent is a level that no record reaches.
const silent = math.MaxInt

// Hub copies the records of a log to its readers.
type Hub struct {
	lowest atomic.Int64 // the lowest level of any reader, plus one; 0 without readers

	mu      sync.Mutex
	readers []*reader // replaced, never modified
}

// reader is one reader of the log.
type reader struct {
	level   slog.Level
	handler slog.Handler
	lines   chan []byte
	dropped atomic.Int64
}

// Write adds a line, or drops it if the reader is slow. The slog handler calls it.
func (r *reader) Write(line []byte) (int, error) {
	n := len(line)
	if n > maxLine {
		line = append(slices.Clip(line[:maxLine]), '\n')
	}
	select {
	case r.lines <- bytes.Clone(line):
	default:
		r.dropped.Add(1)
	}
	return n, nil
}

// Handler returns a handler that passes records to next and to the readers of the hub.
func (h *Hub) Handler(next slog.Handler) slog.Handler { return &tap{hub: h, next: next} }

// add registers a reader. The caller calls the returned function once.
func (h *Hub) add(level slog.Level, format Format) (*reader, func(), error) {
	r := &reader{level: level, lines: make(chan []byte, bufferSize)}
	format.Level = level
	r.handler = format.Handler(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.readers) >= maxReaders {
		return nil, nil, apierror.Errorf(http.StatusTooManyRequests, "monitor the log: at most %d at the same time on one agent", maxReaders)
	}
	h.set(append(slices.Clone(h.readers), r))
	return r, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.set(slices.DeleteFunc(slices.Clone(h.readers), func(other *reader) bool { return other == r }))
	}, nil
}

// set replaces the readers. The caller holds mu.
func (h *Hub) set(readers []*reader) {
	h.readers = readers
	low := int64(silent)
	for _, r := range readers {
		low = min(low, int64(r.level))
	}
	h.lowest.Store(low + 1)
	if len(readers) == 0 {
		h.lowest.Store(0)
	}
}

// wants reports whether a reader wants records of a level.
func (h *Hub) wants(level slog.Level) bool {
	low := h.lowest.Load()
	return low != 0 && int64(level) >= low-1
}

func (h *Hub) current() []*reader {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readers
}

// tap is the handler of a Hub.
type tap struct {
	hub  *Hub
	next slog.Handler
	with []func(slog.Handler) slog.Handler // attributes and groups, for the handlers of readers
}

// Enabled reports whether the log or a reader wants records of the level.
func (t *tap) Enabled(ctx context.Context, level slog.Level) bool {
	return t.hub.wants(level) || t.next.Enabled(ctx, level)
}

// Handle passes the record on.
func (t *tap) Handle(ctx context.Context, rec slog.Record) error {
	var errs []error
	if t.next.Enabled(ctx, rec.Level) {
		errs = append(errs, t.next.Handle(ctx, rec.Clone()))
	}
	if !t.hub.wants(rec.Level) {
		return errors.Join(errs...)
	}
	for _, r := range t.hub.current() {
		if rec.Level < r.level {
			continue
		}
		to := r.handler
		for _, with := range t.with {
			to = with(to)
		}
		errs = append(errs, to.Handle(ctx, rec.Clone()))
	}
	return errors.Join(errs...)
}

// WithAttrs returns a handler with more attributes.
func (t *tap) WithAttrs(attrs []slog.Attr) slog.Handler {
	return t.and(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup returns a handler whose attributes are in a group.
func (t *tap) WithGroup(name string) slog.Handler {
	return t.and(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (t *tap) and(with func(slog.Handler) slog.Handler) slog.Handler {
	return &tap{hub: t.hub, next: with(t.next), with: append(slices.Clip(t.with), with)}
}
