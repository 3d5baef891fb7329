package httpapi

import (
	"io"
	"net/http"
	"net/http/pprof"
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/aclapi"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/profile"
)

func (s *Server) agentRoutes() []web.Route {
	routes := []web.Route{
		{Methods: "GET", Path: "/v1/agent/self", Handle: web.ForCallers(acl.ToRead(acl.Agents), s.agentSelf)},
		{Methods: "GET", Path: "/v1/agent/health", Handle: s.agentHealth},
		{Methods: "GET", Path: "/v1/agent/members",
			Handle: web.Read("Status.Members", web.NoFields[message.GenericRequest], web.Full[message.ServerMembersResponse])},
		{Methods: "GET", Path: "/v1/agent/servers", Handle: web.ForCallers(acl.ToRead(acl.Agents), s.agentServers)},
		{Methods: "PUT POST", Path: "/v1/agent/servers", Handle: web.ForOperators(acl.ToWrite(acl.Agents), s.agentSetServers)},
		{Methods: "PUT POST", Path: "/v1/agent/reload", Handle: web.ForOperators(acl.ToWrite(acl.Agents), s.agentReload)},
		{Methods: "GET", Path: "/v1/agent/monitor", Handle: s.agentMonitor},
		{Methods: "GET", Path: "/v1/agent/monitor/export", Handle: s.agentMonitorExport},
		{Methods: "GET", Path: "/v1/metrics", Handle: web.ForCallers(s.metricsRight(), s.metrics)},
	}
	routes = append(routes, s.schedulerRoutes()...)
	if s.cfg.Debug {
		routes = append(routes, debugRoutes()...)
	}
	return routes
}

// clusterRoutes returns the routes of regions, status, garbage collection and the scheduler
// configuration.
func clusterRoutes() []web.Route {
	return []web.Route{
		{Methods: "GET", Path: "/v1/regions",
			Handle: web.Read("Region.List", web.NoFields[message.GenericRequest], func(o *[]string) (any, error) { return *o, nil })},
		{Methods: "GET", Path: "/v1/status/leader",
			Handle: web.Read("Status.Leader", web.NoFields[message.GenericRequest], func(o *string) (any, error) { return *o, nil })},
		{Methods: "GET", Path: "/v1/status/peers",
			Handle: web.Read("Status.Peers", web.NoFields[message.GenericRequest], func(o *[]string) (any, error) { return *o, nil })},
		{Methods: "PUT", Path: "/v1/system/gc", Handle: system("System.GarbageCollect")},
		{Methods: "PUT", Path: "/v1/system/reconcile/summaries", Handle: system("System.ReconcileJobSummaries")},
		{Methods: "GET", Path: "/v1/operator/scheduler/configuration",
			Handle: web.Read("Operator.SchedulerGetConfiguration", web.NoFields[message.GenericRequest],
				web.Full[message.SchedulerConfigurationResponse])},
		{Methods: "PUT POST", Path: "/v1/operator/scheduler/configuration",
			Call: web.Write("Operator.SchedulerSetConfiguration", schedulerConfig, web.Full[message.SchedulerSetConfigurationResponse])},
	}
}

// rpcRoutes returns the routes that servers or nodes answer. Their handlers only make an RPC.
func (s *Server) rpcRoutes() []web.Route {
	return slices.Concat(s.jobRoutes(), s.scalingRoutes(), nodeRoutes(), allocRoutes(), s.clientRoutes(), pauseRoutes(), s.fsRoutes(),
		s.execRoutes(), s.diskRoutes(), clusterRoutes(), s.snapshotRoutes(), profileRoutes(), eventRoutes(), s.autopilotRoutes(),
		rootKeyRoutes(), variableRoutes(), serviceRoutes(), aclapi.Routes(), quotaRoutes(), volumeRoutes(), csiRoutes(), searchRoutes(),
		rebalanceRoutes(), spiffeRoutes(), vaultRoutes())
}

func (s *Server) agentSelf(r *web.Request) (any, error) { return s.cfg.Agent.Self(), nil }

func (s *Server) agentHealth(r *web.Request) (any, error) {
	client, server := s.cfg.Agent.Health()
	kinds := r.Query["type"]
	asked := func(kind string) bool { return len(kinds) == 0 || slices.Contains(kinds, kind) }
	out := map[string]*Health{}
	for kind, h := range map[string]*Health{"client": client, "server": server} {
		switch {
		case !asked(kind):
		case h != nil:
			out[kind] = h
		case len(kinds) > 0:
			out[kind] = &Health{Message: kind + " not enabled"}
		}
	}
	for _, h := range out {
		if !h.OK {
			text, err := web.EncodeJSON(out, false)
			if err != nil {
				return nil, err
			}
			return nil, apierror.Errorf(http.StatusInternalServerError, "%s", text)
		}
	}
	return out, nil
}

func (s *Server) agentServers(*web.Request) (any, error) {
	servers := s.cfg.Agent.Servers()
	if servers == nil {
		return nil, errNoClient
	}
	slices.Sort(servers)
	return servers, nil
}

var errNoClient = apierror.Errorf(http.StatusNotImplemented, "Invalid method: this agent is not a client")

func (s *Server) agentSetServers(r *web.Request) (any, error) {
	addrs := r.Query["address"]
	switch {
	case s.cfg.Agent.Servers() == nil:
		return nil, errNoClient
	case len(addrs) == 0:
		return nil, apierror.Errorf(http.StatusBadRequest, "missing server address: use ?address=")
	}
	return nil, s.cfg.Agent.SetServers(addrs)
}

func (s *Server) agentReload(*web.Request) (any, error) { return nil, s.cfg.Agent.Reload() }

// metricsRight returns the right that /v1/metrics requires. Metrics contain the names of jobs,
// tasks and nodes of all namespaces.
func (s *Server) metricsRight() acl.Question {
	if s.cfg.OpenMetrics {
		return acl.Question{}
	}
	return acl.ToRead(acl.Agents)
}

func (s *Server) metrics(r *web.Request) (any, error) {
	if r.Query.Get("format") != "prometheus" {
		return s.cfg.Agent.Metrics(r.Reply, r.Request)
	}
	h := s.cfg.Agent.Prometheus()
	if h == nil {
		return nil, apierror.Errorf(http.StatusUnsupportedMediaType, "Prometheus is not enabled: set telemetry { prometheus_metrics = true }")
	}
	h.ServeHTTP(r.Reply, r.Request)
	return nil, web.ErrDone
}

// system returns the handler of a route that starts work on the leader.
func system(method string) web.Handler {
	return web.Read(method, web.NoFields[message.GenericRequest], web.Nothing[message.GenericResponse])
}

func schedulerConfig(r *web.Request, q *message.SchedulerSetConfigRequest) error {
	if err := r.Decode(&q.Config); err != nil {
		return err
	}
	if !r.Query.Has("cas") {
		return nil
	}
	index, err := r.Number("cas")
	if err != nil || index < 0 {
		return apierror.Errorf(http.StatusBadRequest, "Error parsing cas value %q: use the ModifyIndex of the configuration", r.Query.Get("cas"))
	}
	q.Config.ModifyIndex, q.CAS = uint64(index), true
	return nil
}

// commandLine replies with the command line of the agent, without the values of secret flags.
func commandLine(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	io.WriteString(w, profile.CommandLine()) //nolint:errcheck // the caller has left
}

// debugRoutes returns the routes of net/http/pprof, for an agent with enable_debug. Profiles can
// contain secrets from memory.
func debugRoutes() []web.Route {
	plain := func(h http.HandlerFunc) web.Handler {
		return web.ForOperators(acl.ToWrite(acl.Agents), func(r *web.Request) (any, error) {
			h(r.Reply, r.Request)
			return nil, web.ErrDone
		})
	}
	return []web.Route{
		{Methods: "GET", Path: "/debug/pprof/", Handle: plain(pprof.Index)},
		{Methods: "GET", Path: "/debug/pprof/cmdline", Handle: plain(commandLine)},
		{Methods: "GET", Path: "/debug/pprof/profile", Handle: plain(pprof.Profile)},
		{Methods: "GET POST", Path: "/debug/pprof/symbol", Handle: plain(pprof.Symbol)},
		{Methods: "GET", Path: "/debug/pprof/trace", Handle: plain(pprof.Trace)},
		{Methods: "GET", Path: "/debug/pprof/:profile", Handle: plain(pprof.Index)},
	}
}
