package httpapi

import (
	"net/http"
	"net/http/pprof"
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func (s *Server) agentRoutes() []route {
	routes := []route{
		{methods: "GET", path: "/v1/agent/self", handle: s.forCallers(acl.ToRead(acl.Agents), s.agentSelf)},
		{methods: "GET", path: "/v1/agent/health", handle: s.agentHealth},
		{methods: "GET", path: "/v1/agent/members", handle: read("Status.Members", noFields[message.GenericRequest], whole[message.ServerMembersResponse])},
		{methods: "GET", path: "/v1/agent/servers", handle: s.forCallers(acl.ToRead(acl.Agents), s.agentServers)},
		{methods: "PUT POST", path: "/v1/agent/servers", handle: s.forOperators(acl.ToWrite(acl.Agents), s.agentSetServers)},
		{methods: "PUT POST", path: "/v1/agent/reload", handle: s.forOperators(acl.ToWrite(acl.Agents), s.agentReload)},
		{methods: "GET", path: "/v1/metrics", handle: s.forCallers(s.metricsRight(), s.metrics)},
	}
	routes = append(routes, s.schedulerRoutes()...)
	if s.cfg.Debug {
		routes = append(routes, s.debugRoutes()...)
	}
	return routes
}

// clusterRoutes returns the routes of regions, status, garbage collection and the scheduler
// configuration.
func (s *Server) clusterRoutes() []route {
	return []route{
		{methods: "GET", path: "/v1/regions", handle: read("Region.List", noFields[message.GenericRequest], func(o *[]string) (any, error) { return *o, nil })},
		{methods: "GET", path: "/v1/status/leader", handle: read("Status.Leader", noFields[message.GenericRequest], func(o *string) (any, error) { return *o, nil })},
		{methods: "GET", path: "/v1/status/peers", handle: read("Status.Peers", noFields[message.GenericRequest], func(o *[]string) (any, error) { return *o, nil })},
		{methods: "PUT", path: "/v1/system/gc", handle: system("System.GarbageCollect")},
		{methods: "PUT", path: "/v1/system/reconcile/summaries", handle: system("System.ReconcileJobSummaries")},
		{methods: "GET", path: "/v1/operator/scheduler/configuration", handle: read("Operator.SchedulerGetConfiguration", noFields[message.GenericRequest], whole[message.SchedulerConfigurationResponse])},
		{methods: "PUT POST", path: "/v1/operator/scheduler/configuration", call: write("Operator.SchedulerSetConfiguration", schedulerConfig, whole[message.SchedulerSetConfigurationResponse])},
	}
}

// table lists every route.
func (s *Server) table() []route {
	return slices.Concat(s.rpcRoutes(), s.memberRoutes(), s.agentRoutes(), s.explainRoutes(), s.laterRoutes(), s.enterpriseRoutes())
}

// rpcRoutes returns the routes that servers or nodes answer. Their handlers only make an RPC.
func (s *Server) rpcRoutes() []route {
	return slices.Concat(s.jobRoutes(), s.nodeRoutes(), s.allocRoutes(), s.clientRoutes(), s.fsRoutes(), s.execRoutes(), s.clusterRoutes(), s.snapshotRoutes(), s.eventRoutes(), autopilotRoutes(),
		s.rootKeyRoutes(), s.variableRoutes(), s.aclRoutes(), quotaRoutes(), searchRoutes())
}

// noFields fills a request that has only query options.
func noFields[Req any](*request, *Req) error { return nil }

func (s *Server) agentSelf(r *request) (any, error) { return s.cfg.Agent.Self(), nil }

func (s *Server) agentHealth(r *request) (any, error) {
	client, server := s.cfg.Agent.Health()
	kinds := r.query["type"]
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
			text, err := encodeJSON(out, false)
			if err != nil {
				return nil, err
			}
			return nil, nomad.Errorf(http.StatusInternalServerError, "%s", text)
		}
	}
	return out, nil
}

func (s *Server) agentServers(*request) (any, error) {
	servers := s.cfg.Agent.Servers()
	if servers == nil {
		return nil, errNoClient
	}
	slices.Sort(servers)
	return servers, nil
}

var errNoClient = nomad.Errorf(http.StatusNotImplemented, "Invalid method: this agent is not a client")

func (s *Server) agentSetServers(r *request) (any, error) {
	addrs := r.query["address"]
	switch {
	case s.cfg.Agent.Servers() == nil:
		return nil, errNoClient
	case len(addrs) == 0:
		return nil, nomad.Errorf(http.StatusBadRequest, "missing server address: use ?address=")
	}
	return nil, s.cfg.Agent.SetServers(addrs)
}

func (s *Server) agentReload(*request) (any, error) { return nil, s.cfg.Agent.Reload() }

// metricsRight returns the right that /v1/metrics requires. Metrics contain the names of jobs,
// tasks and nodes of all namespaces.
func (s *Server) metricsRight() acl.Question {
	if s.cfg.OpenMetrics {
		return acl.Question{}
	}
	return acl.ToRead(acl.Agents)
}

func (s *Server) metrics(r *request) (any, error) {
	if r.query.Get("format") != "prometheus" {
		return s.cfg.Agent.Metrics(r.w, r.Request)
	}
	h := s.cfg.Agent.Prometheus()
	if h == nil {
		return nil, nomad.Errorf(http.StatusUnsupportedMediaType, "Prometheus is not enabled: set telemetry { prometheus_metrics = true }")
	}
	h.ServeHTTP(r.w, r.Request)
	return nil, errDone
}

// system returns the handler of a route that starts work on the leader.
func system(method string) func(*request) (any, error) {
	return read(method, noFields[message.GenericRequest], nothing[message.GenericResponse])
}

func schedulerConfig(r *request, q *message.SchedulerSetConfigRequest) error {
	if err := r.decode(&q.Config); err != nil {
		return err
	}
	if !r.query.Has("cas") {
		return nil
	}
	index, err := r.number("cas")
	if err != nil || index < 0 {
		return nomad.Errorf(http.StatusBadRequest, "Error parsing cas value %q: use the ModifyIndex of the configuration", r.query.Get("cas"))
	}
	q.Config.ModifyIndex, q.CAS = uint64(index), true
	return nil
}

// debugRoutes returns the routes of net/http/pprof, for an agent with enable_debug. Profiles can
// contain secrets from memory.
func (s *Server) debugRoutes() []route {
	plain := func(h http.HandlerFunc) func(*request) (any, error) {
		return s.forOperators(acl.ToWrite(acl.Agents), func(r *request) (any, error) {
			h(r.w, r.Request)
			return nil, errDone
		})
	}
	return []route{
		{methods: "GET", path: "/debug/pprof/", handle: plain(pprof.Index)},
		{methods: "GET", path: "/debug/pprof/cmdline", handle: plain(pprof.Cmdline)},
		{methods: "GET", path: "/debug/pprof/profile", handle: plain(pprof.Profile)},
		{methods: "GET POST", path: "/debug/pprof/symbol", handle: plain(pprof.Symbol)},
		{methods: "GET", path: "/debug/pprof/trace", handle: plain(pprof.Trace)},
		{methods: "GET", path: "/debug/pprof/:profile", handle: plain(pprof.Index)},
	}
}
