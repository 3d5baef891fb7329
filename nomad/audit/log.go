package audit

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// The errors for callers whose event could not be written while the guarantee is enforced.
var (
	// ErrRefused means that the request was not run.
	ErrRefused = &apierror.Coded{Code: http.StatusInternalServerError,
		Message: "audit log: the request could not be recorded, and was not run: see the agent's log for the reason"}
	// ErrUnrecorded means that the request was run.
	ErrUnrecorded = &apierror.Coded{Code: http.StatusInternalServerError,
		Message: "audit log: the request was run, but its result could not be recorded: see the agent's log for the reason"}
)

// failed is the counter of events that were not written.
var failed = []string{"audit", "failed"}

// complainEvery is the interval between log messages about lost events.
const complainEvery = time.Minute

// Config selects the events and their file.
type Config struct {
	// Path is the absolute path of the file.
	Path string
	// OwnDir means that the file's directory contains nothing else. It gets mode 0700.
	OwnDir bool
	// Mode is the file's mode.
	Mode fs.FileMode
	// Enforced means that an operation fails if its event cannot be written.
	Enforced bool
	// RotateEvery and RotateBytes are the age and the size at which the file is rotated; zero
	// means never. Keep is the number of rotated files to keep; zero means all.
	RotateEvery time.Duration
	RotateBytes int64
	Keep        int
	Filters     []Filter
}

// Log writes events. A nil Log and a Log without a configuration drop them. Its methods may be
// called concurrently.
type Log struct {
	log  *slog.Logger
	now  func() time.Time
	node nodeLine
	cur  atomic.Pointer[setup] // nil if off

	turn sync.Mutex // serializes Set

	mu       sync.Mutex
	lost     int // events since the last log message
	nextSaid time.Time
}

// setup is the current configuration of a Log and its file.
type setup struct {
	Config
	file *file
}

// New returns a Log that is off. Its own errors go to log.
func New(node Node, log *slog.Logger) *Log {
	return &Log{log: log, now: time.Now, node: node.line()}
}

// Set applies c; nil turns the log off. It opens the file again, because an external program
// may have renamed it. After an error the previous configuration stays in effect.
func (l *Log) Set(c *Config) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	old := l.cur.Load()
	var next *setup
	if c != nil {
		next = &setup{Config: *c}
		if old != nil && old.Path == c.Path {
			next.file = old.file
			if err := old.file.reopen(next.Config); err != nil {
				return err
			}
		} else {
			f, err := openFile(next.Config, l.log, l.now)
			if err != nil {
				return err
			}
			next.file = f
		}
	}
	l.cur.Store(next)
	if old != nil && (next == nil || next.file != old.file) {
		return old.file.close()
	}
	return nil
}

// Close turns the log off.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return l.Set(nil)
}

// Enabled reports whether events are written.
func (l *Log) Enabled() bool { return l != nil && l.cur.Load() != nil }

// Enforced reports whether an operation must fail if its event cannot be written.
func (l *Log) Enforced() bool {
	if l == nil {
		return false
	}
	set := l.cur.Load()
	return set != nil && set.Enforced
}

// buffers holds reusable buffers for lines.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 2048)
	return &b
}}

// maxBuffer is the maximum size of a reusable buffer, and the approximate size of one write.
const maxBuffer = 64 << 10

// Record writes the events of one operation. An error is meant for the caller: ErrRefused
// before the operation, otherwise ErrUnrecorded.
func (l *Log) Record(events ...*Event) error {
	if l == nil {
		return nil
	}
	set := l.cur.Load()
	if set == nil {
		return nil
	}
	held := buffers.Get().(*[]byte)
	b := (*held)[:0]
	defer func() {
		if cap(b) <= 2*maxBuffer {
			*held = b
			buffers.Put(held)
		}
	}()
	now := l.now()
	lines := 0
	for i, e := range events {
		if !set.drops(e) {
			if e.Request.ID == "" {
				e.Request.ID = nomad.NewID()
			}
			b, lines = e.line(b, now.UTC(), l.node), lines+1
		}
		if lines == 0 || len(b) < maxBuffer && i < len(events)-1 {
			continue
		}
		if err := l.write(set, b, now); err != nil {
			return l.fail(set, e.Stage, lines, err)
		}
		b, lines = b[:0], 0
	}
	return nil
}

func (s *setup) drops(e *Event) bool {
	for i := range s.Filters {
		if s.Filters[i].drops(e) {
			return true
		}
	}
	return false
}

// write appends lines to the file. If a Set closed the file concurrently, it uses the new one,
// unless the log was turned off.
func (l *Log) write(set *setup, lines []byte, now time.Time) error {
	for {
		err := set.file.write(lines, now)
		if !errors.Is(err, fs.ErrClosed) {
			return err
		}
		next := l.cur.Load()
		if next == nil || next == set {
			return nil
		}
		set = next
	}
}

// fail records events that could not be written.
func (l *Log) fail(set *setup, stage Stage, lines int, err error) error {
	metrics.IncrCounter(failed, float32(lines))
	l.complain(lines, err)
	switch {
	case !set.Enforced:
		return nil
	case stage == Received:
		return ErrRefused
	}
	return ErrUnrecorded
}

func (l *Log) complain(lines int, err error) {
	l.mu.Lock()
	l.lost += lines
	lost, now := l.lost, l.now()
	if now.Before(l.nextSaid) {
		l.mu.Unlock()
		return
	}
	l.lost, l.nextSaid = 0, now.Add(complainEvery)
	l.mu.Unlock()
	l.log.Error("audit events could not be written", "events", lost, "err", err)
}
