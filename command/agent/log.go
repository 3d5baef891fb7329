package agent

import (
	"io"
	"log/slog"

	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/nomad/monitor"
)

// newLog makes the log of the process, which source copies to callers of Agent.Monitor. If daemon is not
// nil, it goes to syslog too. Its level may change at run time.
func newLog(w io.Writer, s *config.Settings, source *monitor.Source, daemon *syslogSink) (*slog.Logger, *slog.LevelVar, error) {
	level := &slog.LevelVar{}
	l, err := config.LogLevel(s.LogLevel)
	if err != nil {
		return nil, nil, err
	}
	level.Set(l)
	format := monitor.Format{Level: level, JSON: s.LogJSON, Location: s.LogIncludeLocation}
	if daemon == nil {
		return source.Log(format.Handler(w)), level, nil
	}
	return source.Log(slog.NewMultiHandler(format.Handler(w), daemon.handler(format))), level, nil
}
