package agent

import (
	"io"
	"log/slog"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

// newLog makes the log of the process. Its level may change at run time.
func newLog(w io.Writer, s *config.Settings) (*slog.Logger, *slog.LevelVar, error) {
	level := &slog.LevelVar{}
	l, err := config.LogLevel(s.LogLevel)
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
	if a.Key == slog.LevelKey && a.Value.Any() == config.LevelTrace {
		return slog.String(slog.LevelKey, "TRACE")
	}
	return a
}
