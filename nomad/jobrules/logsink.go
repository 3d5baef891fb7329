package jobrules

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// validateLogSinks accepts the log sinks that nodes can have.
func validateLogSinks(l *nomad.LogConfig, f *faults) {
	for i, name := range l.Sinks {
		switch {
		case name != nomad.LogSinkJournald && name != nomad.LogSinkOTLP:
			f.add("sinks of logs has %q: use journald or otlp", name)
		case slices.Contains(l.Sinks[:i], name):
			f.add("sinks of logs has %q twice: remove one", name)
		}
	}
	if len(l.Sinks) > 0 && l.Disabled {
		f.add("logs is disabled, so that its sinks get nothing: remove disabled or sinks")
	}
}
