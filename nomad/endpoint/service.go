// Package endpoint handles the RPC methods of a server. It has one file per noun, and the
// table of methods in methods.go.
//
//	request ─▶ nomad/rpc: who, where ─▶ handler ─▶ state (reads, blocking)
//	                                          ├─────▶ raft  (writes, then the index)
//	                                          └─────▶ node  (relayed over its session)
//
// A handler validates the request and checks which nodes and allocations the caller may
// access. It then reads a snapshot or writes one log entry. Objects from state are never
// modified. Features that are not implemented yet have methods too, which fail with the name
// of the feature.
//
// The package has no long-lived goroutines. Its only state is the evaluations waiting to be
// written (evalWriter) and the pending logins (login.Desk).
package endpoint

import (
	"cmp"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/endpoint/access"
	"github.com/open-nomad/open-nomad/nomad/endpoint/allocs"
	"github.com/open-nomad/open-nomad/nomad/endpoint/explain"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/endpoint/relay"
	"github.com/open-nomad/open-nomad/nomad/endpoint/rootkeys"
	"github.com/open-nomad/open-nomad/nomad/search"
	"github.com/open-nomad/open-nomad/nomad/stream"
)

// Config configures a Service. All fields are required unless noted.
type Config struct {
	Core     handler.Config
	RootKeys rootkeys.Config
	Access   access.Config
	Relay    relay.Config

	Datacenter string
	Name       string
	// AuthoritativeRegion is the region that Region replicates from. It is Region itself or
	// "" if there is none.
	AuthoritativeRegion string
	Limits              Limits
	Introduction        Introduction
	Search              search.Limits
	// LeaderToken returns the token of the leader's own calls, or "" on other servers. Core
	// evaluations carry it to their worker.
	LeaderToken func() string

	Voters     Voters
	Autopilot  Autopilot
	Blocked    *broker.Blocked
	Plans      Plans
	Snapshots  Snapshots
	Events     *stream.Broker // nil disables events
	Heartbeats Heartbeats
	Locks      Locks
	Deploys    Deployments
	Keyring    Keyring
}

// Service handles the RPC methods. See Methods.
type Service struct {
	*handler.Core
	cfg     Config
	access  *access.Service
	relay   *relay.Service
	allocs  *allocs.Service
	explain *explain.Service
	keys    *rootkeys.Service
}

// New returns a Service. It sets the defaults of the config.
func New(cfg Config) *Service {
	l := &cfg.Limits
	l.DefaultPriority = cmp.Or(l.DefaultPriority, nomad.JobDefaultPriority)
	l.MaxPriority = cmp.Or(l.MaxPriority, nomad.JobDefaultMaxPriority)
	l.MaxCount = cmp.Or(l.MaxCount, nomad.JobDefaultMaxCount)
	l.MaxSource = cmp.Or(l.MaxSource, defaultMaxSource)
	i := &cfg.Introduction
	i.Enforcement = cmp.Or(i.Enforcement, nomad.NodeIntroductionEnforcementWarn)
	i.DefaultTTL = cmp.Or(i.DefaultTTL, defaultIntroductionTTL)
	i.MaxTTL = cmp.Or(i.MaxTTL, maxIntroductionTTL)
	f := &cfg.Search
	f.Gathered, f.Results, f.MinText = cmp.Or(f.Gathered, 20), cmp.Or(f.Results, 100), cmp.Or(f.MinText, 2)
	core := handler.New(cfg.Core)
	s := &Service{Core: core, cfg: cfg, keys: rootkeys.New(core, cfg.RootKeys)}
	s.access = access.New(core, s.keys, cfg.Access)
	s.relay = relay.New(core, cfg.Relay)
	s.allocs = allocs.New(core)
	s.explain = explain.New(core, s.Methods)
	return s
}
