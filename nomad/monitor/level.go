package monitor

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
)

// LevelTrace is below Debug, for detailed output of libraries.
const LevelTrace = slog.Level(-8)

// Level parses the name of a log level.
func Level(name string) (slog.Level, error) {
	switch strings.ToUpper(name) {
	case "TRACE":
		return LevelTrace, nil
	case "DEBUG":
		return slog.LevelDebug, nil
	case "INFO":
		return slog.LevelInfo, nil
	case "WARN":
		return slog.LevelWarn, nil
	case "ERROR", "ERR":
		return slog.LevelError, nil
	case "OFF":
		return slog.Level(math.MaxInt), nil
	}
	return 0, fmt.Errorf("must be TRACE, DEBUG, INFO, WARN, ERROR or OFF, not %q", name)
}

// Format is the format of log lines.
type Format struct {
	Level    slog.Leveler
	JSON     bool // an object per line
	Location bool // with the position in the source code
}

// Handler returns a handler that writes each record as one line with one call of w.Write.
func (f Format) Handler(w io.Writer) slog.Handler {
	opts := &slog.HandlerOptions{Level: f.Level, AddSource: f.Location, ReplaceAttr: nameTrace}
	if f.JSON {
		return slog.NewJSONHandler(w, opts)
	}
	return slog.NewTextHandler(w, opts)
}

// nameTrace sets the name of LevelTrace, which slog does not have.
func nameTrace(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.LevelKey && a.Value.Any() == LevelTrace {
		return slog.String(slog.LevelKey, "TRACE")
	}
	return a
}
