package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/open-nomad/open-nomad/plugins/wire"
)

// Limits of a program's log: bytes of a line, and lines. What exceeds them is dropped.
const (
	maxLine    = 64 << 10
	linesBurst = 500
	linesEvery = 20 * time.Millisecond
)

// readLog logs the lines that a program writes to its standard error until that ends. Lines in the
// JSON of hclog have a level; others are of level debug. keep is that of logLine.
func readLog(r io.Reader, log *slog.Logger, keep io.Writer) {
	in := bufio.NewReaderSize(r, maxLine)
	limit := rate.NewLimiter(rate.Every(linesEvery), linesBurst)
	var dropped int
	for {
		line, long, err := in.ReadLine()
		switch {
		case err != nil:
			return
		case long || !limit.Allow():
			dropped++
		default:
			if dropped > 0 {
				log.Warn("lines of the plugin's log were dropped", "lines", dropped)
				dropped = 0
			}
			logLine(log, line, keep)
		}
	}
}

// output logs what a program writes to its standard output and error after the handshake, which
// go-plugin redirects.
type output struct {
	log   *slog.Logger
	limit *rate.Limiter
	keep  io.Writer
}

func newOutput(log *slog.Logger, keep io.Writer) *output {
	return &output{log, rate.NewLimiter(rate.Every(linesEvery), linesBurst), keep}
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if o.limit.Allow() {
		logLine(o.log, p, o.keep)
	}
	return len(p), nil
}

var levels = map[string]slog.Level{"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
	"error": slog.LevelError}

// maxFields limits the attributes of a line.
const maxFields = 32

// logLine logs a line. What explains the end of a program goes to keep: text without a level, such as
// a panic, and warnings.
func logLine(log *slog.Logger, line []byte, keep io.Writer) {
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		keep.Write(append(slices.Clip(line), '\n')) //nolint:errcheck // never fails
		log.Debug("output of the plugin", "line", wire.Clip(string(line)))
		return
	}
	text := func(key string) string { s, _ := fields[key].(string); return s }
	level, ok := levels[strings.ToLower(text("@level"))]
	if !ok {
		level = slog.LevelDebug
	}
	if level >= slog.LevelWarn {
		io.WriteString(keep, text("@message")+"\n") //nolint:errcheck // never fails
	}
	attrs := []slog.Attr{slog.String("message", wire.Clip(text("@message")))}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if strings.HasPrefix(key, "@") || len(attrs) > maxFields {
			continue
		}
		value, err := json.Marshal(fields[key])
		if err == nil {
			attrs = append(attrs, slog.String(wire.Clip(key), wire.Clip(strings.Trim(string(value), `"`))))
		}
	}
	log.LogAttrs(context.Background(), level, "message of the plugin", attrs...)
}

// maxTail is how much of a program's output an error contains.
const maxTail = 512

// tail keeps the last bytes of a program's output.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - maxTail; over > 0 {
		t.text = slices.Delete(t.text, 0, over)
	}
	return len(p), nil
}

// quote returns the output for the end of an error.
func (t *tail) quote() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(wire.Clip(string(t.text)))
	if text == "" {
		return ""
	}
	return ": its last output was: " + text
}

// errNoServer is returned by the server half of the plugins, which only a program has.
var errNoServer = errors.New("a client serves no plugin")
