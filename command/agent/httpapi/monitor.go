package httpapi

import (
	"cmp"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// agentMonitor streams the log of an agent.
func (s *Server) agentMonitor(r *web.Request) (any, error) {
	q := message.MonitorRequest{LogLevel: cmp.Or(r.Query.Get("log_level"), "INFO"), NodeID: r.Query.Get("node_id"),
		ServerID: r.Query.Get("server_id")}
	err := flags(r, map[string]*bool{"log_json": &q.LogJSON, "log_include_location": &q.LogIncludeLocation, "plain": &q.PlainText})
	if err != nil {
		return nil, err
	}
	streamed(r, q.PlainText)
	return nil, s.relay(r, "Agent.Monitor", &q)
}

// agentMonitorExport streams stored log lines of an agent.
func (s *Server) agentMonitorExport(r *web.Request) (any, error) {
	q := message.MonitorExportRequest{ServiceName: r.Query.Get("service_name"), LogsSince: cmp.Or(r.Query.Get("logs_since"), "72h"),
		NodeID: r.Query.Get("node_id"), ServerID: r.Query.Get("server_id")}
	if err := flags(r, map[string]*bool{"on_disk": &q.OnDisk, "follow": &q.Follow, "plain": &q.PlainText}); err != nil {
		return nil, err
	}
	streamed(r, q.PlainText)
	return nil, s.relay(r, "Agent.MonitorExport", &q)
}

// flags sets boolean parameters of the query.
func flags(r *web.Request, to map[string]*bool) error {
	for name, flag := range to {
		var err error
		if *flag, err = r.Flag(name); err != nil {
			return err
		}
	}
	return nil
}

// streamed sets the headers of a stream of plain text or of JSON frames.
func streamed(r *web.Request, plain bool) {
	h := r.Reply.Header()
	if !plain {
		h.Set("Content-Type", "application/json")
		return
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
}
