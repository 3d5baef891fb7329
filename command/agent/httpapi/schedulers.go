package httpapi

import (
	"net/http"
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
)

// Schedulers is the body of /v1/agent/schedulers.
type Schedulers struct {
	ServerID string            `codec:"server_id"`
	Workers  []SchedulerWorker `codec:"schedulers"`
	// Enabled lists the evaluation types of the workers, for /v1/agent/schedulers/config.
	Enabled []string `codec:"-"`
}

// SchedulerWorker is the state of one worker. Started is a time in RFC 3339.
type SchedulerWorker struct {
	ID       string   `codec:"id"`
	Enabled  []string `codec:"enabled_schedulers"`
	Started  string   `codec:"started"`
	Status   string   `codec:"status"`
	Workload string   `codec:"workload_status"`
}

// schedulerPool is the body of /v1/agent/schedulers/config.
type schedulerPool struct {
	ServerID string   `codec:"server_id"`
	Number   int      `codec:"num_schedulers"`
	Enabled  []string `codec:"enabled_schedulers"`
}

func (s *Server) schedulerRoutes() []web.Route {
	const config = "/v1/agent/schedulers/config"
	return []web.Route{
		{Methods: "GET", Path: "/v1/agent/schedulers", Handle: web.ForCallers(acl.ToRead(acl.Agents), s.schedulers)},
		{Methods: "GET", Path: config, Handle: web.ForCallers(acl.ToRead(acl.Agents), s.schedulerPool)},
		{Methods: "PUT POST", Path: config, Handle: web.ForOperators(acl.ToWrite(acl.Agents), s.setSchedulerPool)},
	}
}

var errServerOnly = nomad.Errorf(http.StatusBadRequest, "Server only endpoint")

func (s *Server) schedulers(*web.Request) (any, error) {
	all := s.cfg.Agent.Schedulers()
	if all == nil {
		return nil, errServerOnly
	}
	return all, nil
}

func (s *Server) schedulerPool(*web.Request) (any, error) {
	all := s.cfg.Agent.Schedulers()
	if all == nil {
		return nil, errServerOnly
	}
	return schedulerPool{ServerID: all.ServerID, Number: len(all.Workers), Enabled: slices.Sorted(slices.Values(all.Enabled))}, nil
}

func (s *Server) setSchedulerPool(*web.Request) (any, error) {
	if s.cfg.Agent.Schedulers() == nil {
		return nil, errServerOnly
	}
	return nil, nomad.Errorf(http.StatusNotImplemented, "changing the schedulers of a running server is not supported: "+
		"set server { num_schedulers, enabled_schedulers } and restart the agent")
}
