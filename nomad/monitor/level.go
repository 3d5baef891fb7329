package monitor

import (
	"fmt"
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
	JSON     bool // an object in each line
	Location bool // with the position in the source code
}
