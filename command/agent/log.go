package agent

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
)

// levelTrace is below Debug, for detailed output of libraries.
const levelTrace = slog.Level(-8)

// logLevel parses the name of a log level.
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

// newLog makes the log of the process. Its level may change at run time.
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

// nameTrace sets the name of levelTrace, which slog does not know.
func nameTrace(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.LevelKey && a.Value.Any() == levelTrace {
		return slog.String(slog.LevelKey, "TRACE")
	}
	return a
}
