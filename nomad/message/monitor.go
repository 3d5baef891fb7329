package message

// MonitorRequest is the request of Agent.Monitor. Without NodeID and ServerID, the called agent
// answers.
type MonitorRequest struct {
	LogLevel           string
	LogJSON            bool
	LogIncludeLocation bool
	NodeID             string
	ServerID           string // ID or name of a server, or "leader"
	PlainText          bool
	QueryOptions
}

// MonitorExportRequest is the request of Agent.MonitorExport. Without NodeID and ServerID, the called
// agent answers.
type MonitorExportRequest struct {
	NodeID      string
	ServerID    string // ID or name of a server, or "leader"
	ServiceName string // unit of journald
	Follow      bool
	LogsSince   string // a duration
	OnDisk      bool   // the agent's log_file
	// NomadLogPath is ignored: the agent that answers uses the path in its own configuration.
	NomadLogPath string
	PlainText    bool
	QueryOptions
}
