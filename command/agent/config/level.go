package config

import (
	"log/slog"

	"github.com/open-nomad/open-nomad/nomad/monitor"
)

// LogLevel parses the name of a log level.
func LogLevel(name string) (slog.Level, error) { return monitor.Level(name) }
