package config

import (
	"fmt"
	"slices"
	"strings"
)

// loggerOptions are the options of the loggers of the daemon that write to files of the daemon only, or nowhere.
// The other loggers let the daemon connect, as root, to sockets and hosts that a task names.
var loggerOptions = map[string][]string{
	"json-file": {"compress", "env", "env-regex", "labels", "labels-regex", "max-buffer-size", "max-file", "max-size", "mode", "tag"},
	"local":     {"compress", "max-buffer-size", "max-file", "max-size", "mode"},
	"none":      {},
}

// Logger returns the daemon's logger of a task: that of the task if it is allowed, else that of the instance.
func (s *Plugin) Logger(o *Task) (Logging, error) {
	l := o.logging
	if l.Driver == "" && l.Options == nil {
		return s.logging, nil
	}
	if l.Driver == "" { // not that of the daemon, which the agent does not know
		l.Driver = s.logging.Driver
	}
	if l.Driver == "" {
		l.Driver = defaultLogger
	}
	if !slices.Contains(s.loggers, l.Driver) {
		return l, fmt.Errorf("logging type %q is not allowed on this node: use one of %s, "+
			"or add it to allow_logging_types in the plugin config of the driver",
			l.Driver, strings.Join(s.loggers, ", "))
	}
	with := *o
	with.logging = l
	return l, with.checkLogging()
}

// defaultLogger is the logger of instances without a logging block.
const defaultLogger = "json-file"
