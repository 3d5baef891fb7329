package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
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

var errServerOnly = apierror.Errorf(http.StatusBadRequest, "Server only endpoint")

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

// mostWorkers bounds the workers of a server: each is a goroutine that plans alone, so more than the cores
// help little.
const mostWorkers = 1024

// setSchedulerPool changes the workers of the running server. A field that is not given keeps its value.
func (s *Server) setSchedulerPool(r *web.Request) (any, error) {
	all := s.cfg.Agent.Schedulers()
	if all == nil {
		return nil, errServerOnly
	}
	in := struct {
		Number  *int     `json:"num_schedulers"`
		Enabled []string `json:"enabled_schedulers"`
	}{}
	if err := r.Decode(&in); err != nil {
		return nil, err
	}
	number, enabled := len(all.Workers), all.Enabled
	if in.Number != nil {
		number = *in.Number
	}
	if number < 0 || number > mostWorkers {
		return nil, apierror.Errorf(http.StatusBadRequest, "num_schedulers: %d is not 0 to %d", number, mostWorkers)
	}
	if len(in.Enabled) > 0 {
		enabled = in.Enabled
	}
	enabled = slices.DeleteFunc(slices.Clone(enabled), func(t string) bool { return t == nomad.JobTypeCore }) // always enabled
	for i, t := range enabled {
		if !slices.Contains(jobTypes, t) {
			return nil, apierror.Errorf(http.StatusBadRequest, "enabled_schedulers: unknown scheduler %q: use %s", t, strings.Join(jobTypes, ", "))
		}
		if slices.Contains(enabled[:i], t) {
			return nil, apierror.Errorf(http.StatusBadRequest, "enabled_schedulers: %q is given twice", t)
		}
	}
	s.cfg.Agent.SetSchedulers(number, enabled)
	return s.schedulerPool(r)
}

// jobTypes are the types of evaluations that an operator can enable.
var jobTypes = []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch}
