package servertest

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/server"
)

// Log is a log that tests read. Its zero value is ready.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns the whole log.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Has reports whether a line contains all parts.
func (l *Log) Has(parts ...string) bool { return l.Line(parts...) != "" }

// Line returns the first line that contains all parts, or "".
func (l *Log) Line(parts ...string) string {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return line
		}
	}
	return ""
}

// StartTracing runs a server with log level trace.
func StartTracing(t *testing.T, change func(*server.Config)) (*server.Server, *Log) {
	t.Helper()
	log := &Log{}
	s, _ := StartLogging(t, change, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug - 8})))
	return s, log
}
