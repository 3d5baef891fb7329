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
)

// What a caller is told when its event is not in the log, and the log is enforced.
var (
	// ErrRefused is for what was not begun.
	ErrRefused = &nomad.CodedError{Code: http.StatusInternalServerError,
		Message: "audit log: the request could not be recorded, and was not run: the agent's log says why"}
	// ErrUnrecorded is for what was done.
	ErrUnrecorded = &nomad.CodedError{Code: http.StatusInternalServerError,
		Message: "audit log: the request was run, but how it ended could not be recorded: the agent's log says why"}
)

// failed counts events that are not in the log.
var failed = []string{"audit", "failed"}

// complainEvery is how often it is said that events are lost.
const complainEvery = time.Minute

// Config says where events go and which.
type Config struct {
	// Path is that of the file; absolute.
	Path string
	// OwnDir says that the directory of the file is for it alone: it gets mode 0700.
	OwnDir bool
	// Mode is that of the file.
	Mode fs.FileMode
	// Enforced says that what can't be recorded isn't done.
	Enforced bool
	// RotateEvery and RotateBytes are the age and the size at which a new file is begun;
	// zero is never. Keep is how many old ones are kept; zero is all.
	RotateEvery time.Duration
	RotateBytes int64
	Keep        int
	Filters     []Filter
}

// Log takes events. A nil Log, and one that was not set up, keeps nothing. Its methods
// may be called concurrently.
type Log struct {
	log  *slog.Logger
	now  func() time.Time
	meta []byte
	cur  atomic.Pointer[setup] // nil is off

	turn sync.Mutex // one Set at a time

	mu       sync.Mutex
	lost     int // events, since it was said last
	nextSaid time.Time
}

// setup is what a Log works by until it is set up again.
type setup struct {
	Config
	file *file
}

// New returns a Log that is off. Faults of its own go to log.
func New(node Node, log *slog.Logger) *Log {
	return &Log{log: log, now: time.Now, meta: node.json()}
}

// Set begins to work by c; nil turns the log off. The file is opened anew: somebody
// else may have renamed it. On an error everything stays as it was.
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

// On says whether events are kept.
func (l *Log) On() bool { return l != nil && l.cur.Load() != nil }

// Enforced says whether what can't be recorded must not be done.
func (l *Log) Enforced() bool {
	if l == nil {
		return false
	}
	set := l.cur.Load()
	return set != nil && set.Enforced
}

// buffers hold lines on their way to the file.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 2048)
	return &b
}}

// maxBuffer is the size of buffers that are kept, and of one write, about.
const maxBuffer = 64 << 10

// Record writes events, those of one operation. The error is nil or one for the
// caller: ErrRefused before it is run, else ErrUnrecorded.
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
			b, lines = e.line(b, now.UTC(), l.meta), lines+1
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

// write adds lines to the file. One that was closed meanwhile has a successor, unless
// the log was turned off.
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

// fail notes events that are not in the log.
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
