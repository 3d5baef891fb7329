// Package endpoint holds the table of the RPC methods of a server (methods*.go): who may call
// each, where it runs and what it requires. The packages below it handle the methods: one
// package for jobs, one for nodes and so on.
//
//	request ─▶ nomad/rpc: rule, route ─▶ handler ─▶ state (reads, blocking)
//	                                           ├─────▶ raft  (writes, then the index)
//	                                           └─────▶ node  (relayed over its session)
//
// A handler validates the request and checks which nodes and allocations the caller may
// access. It then reads a snapshot or writes one log entry. Objects from state are never
// modified. Features that are not implemented yet have methods too, which fail with the name
// of the feature.
//
// The handlers have no long-lived goroutines. Their only state is the evaluations and the service
// registrations that wait to be written (package handler) and the OIDC logins in progress (package access).
package endpoint

import (
	"github.com/open-nomad/open-nomad/nomad/endpoint/acl"
	"github.com/open-nomad/open-nomad/nomad/endpoint/allocs"
	"github.com/open-nomad/open-nomad/nomad/endpoint/csivolumes"
	"github.com/open-nomad/open-nomad/nomad/endpoint/deployments"
	"github.com/open-nomad/open-nomad/nomad/endpoint/evals"
	"github.com/open-nomad/open-nomad/nomad/endpoint/events"
	"github.com/open-nomad/open-nomad/nomad/endpoint/explain"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/endpoint/hostvolumes"
	"github.com/open-nomad/open-nomad/nomad/endpoint/jobs"
	"github.com/open-nomad/open-nomad/nomad/endpoint/namespaces"
	"github.com/open-nomad/open-nomad/nomad/endpoint/nodepools"
	"github.com/open-nomad/open-nomad/nomad/endpoint/nodes"
	"github.com/open-nomad/open-nomad/nomad/endpoint/relay"
	"github.com/open-nomad/open-nomad/nomad/endpoint/rootkeys"
	"github.com/open-nomad/open-nomad/nomad/endpoint/searches"
	"github.com/open-nomad/open-nomad/nomad/endpoint/servers"
	"github.com/open-nomad/open-nomad/nomad/endpoint/services"
	"github.com/open-nomad/open-nomad/nomad/endpoint/svids"
	"github.com/open-nomad/open-nomad/nomad/endpoint/variables"
	"github.com/open-nomad/open-nomad/nomad/search"
	"github.com/open-nomad/open-nomad/nomad/stream"
	"github.com/open-nomad/open-nomad/nomad/svid"
)

// Config configures a Service. All fields are required unless noted.
type Config struct {
	Core        handler.Config
	RootKeys    rootkeys.Config
	Access      acl.Config
	Relay       relay.Config
	Evals       evals.Config
	Deployments deployments.Changer
	Periodic    jobs.Periodic
	Jobs        jobs.Config
	Nodes       nodes.Config
	HostVolumes hostvolumes.Config
	CSIVolumes  csivolumes.Config

	Variables variables.Config
	Servers   servers.Config
	Search    search.Limits
	Events    *stream.Broker // nil disables events
	SVIDs     *svid.Issuer
}

// Service handles the RPC methods. See Methods.
type Service struct {
	*handler.Core
	cfg         Config
	access      *acl.Service
	relay       *relay.Service
	allocs      *allocs.Service
	explain     *explain.Service
	evals       *evals.Service
	deployments *deployments.Service
	jobs        *jobs.Service
	nodes       *nodes.Service
	nodepools   *nodepools.Service
	keys        *rootkeys.Service
	namespaces  *namespaces.Service
	variables   *variables.Service
	servers     *servers.Service
	events      *events.Service
	searches    *searches.Service
	services    *services.Service
	volumes     *hostvolumes.Service
	svids       *svids.Service
	csi         *csivolumes.Service
}

// New returns a Service. It sets the defaults of the config.
func New(cfg Config) *Service {
	core := handler.New(cfg.Core)
	s := &Service{Core: core, cfg: cfg, keys: rootkeys.New(core, cfg.RootKeys)}
	s.access = acl.New(core, s.keys, cfg.Access)
	s.relay = relay.New(core, cfg.Relay)
	s.allocs = allocs.New(core)
	s.evals = evals.New(core, cfg.Evals)
	s.deployments = deployments.New(core, cfg.Deployments)
	s.jobs = jobs.New(core, s.keys, cfg.Periodic, cfg.Jobs)
	s.nodes = nodes.New(core, cfg.Nodes)
	s.nodepools = nodepools.New(core)
	s.namespaces = namespaces.New(core)
	s.variables = variables.New(core, cfg.Variables)
	s.servers = servers.New(core, cfg.Servers)
	s.events = events.New(core, cfg.Events)
	s.searches = searches.New(core, cfg.Search)
	s.services = services.New(core)
	s.volumes = hostvolumes.New(core, cfg.HostVolumes)
	s.csi = csivolumes.New(core, cfg.CSIVolumes)
	s.svids = svids.New(core, cfg.SVIDs)
	s.explain = explain.New(core, s.Methods)
	return s
}
