package nomad

// The kinds of log sinks of a node. They exist only in open-nomad.
const (
	LogSinkJournald = "journald"
	LogSinkOTLP     = "otlp"
)

// LogSinkAttribute returns the attribute of nodes that have a log sink.
func LogSinkAttribute(sink string) string { return "log.sink." + sink }
