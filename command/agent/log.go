package agent

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
)

// levelTrace is below Debug: what libraries tell in great detail.
const levelTrace = slog.Level(-8)

// logLevel reads a level by its name.
func logLevel(name string) (slog.Level, error) {
	switch strings.ToUpper(name) {
	case "TRACE":
		return levelTrace, nil
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
	return 0, fmt.Errorf("TRACE, DEBUG, INFO, WARN, ERROR or OFF is expected, not %q", name)
}

// newLog makes the log of the process. The level may be changed while it runs.
func newLog(w io.Writer, s *Settings) (*slog.Logger, *slog.LevelVar, error) {
	level := &slog.LevelVar{}
	l, err := logLevel(s.LogLevel)
	if err != nil {
		return nil, nil, err
	}
	level.Set(l)
	opts := &slog.HandlerOptions{Level: level, AddSource: s.LogIncludeLocation, ReplaceAttr: nameTrace}
	if s.LogJSON {
		return slog.New(slog.NewJSONHandler(w, opts)), level, nil
	}
	return slog.New(slog.NewTextHandler(w, opts)), level, nil
}

// nameTrace gives the level that slog has no word for its name.
func nameTrace(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.LevelKey && a.Value.Any() == levelTrace {
		return slog.String(slog.LevelKey, "TRACE")
	}
	return a
}
