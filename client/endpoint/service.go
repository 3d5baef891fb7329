// Package endpoint holds the RPC methods of a node (methods.go), with the rights that each requires (rule.go). Their handlers
// are in a file for each noun: allocations, files, exec, port forwarding, the node and its agent.
//
//	server ──session that the node opened──▶ relayed ──ticket or token──▶ handler
//	agent of this process ─────────────────▶ local ──object on this node, token──▶ handler
//	                                           └──any other object──▶ servers
//
// A relayed call has been authorised by a server, which proves it with a ticket. The node authorises all other callers by
// their tokens. It answers its own agent also without servers, as long as the caller's rights are cached.
//
// The handlers have no long-lived goroutines. A stream ends when its caller loses the right to it.
package endpoint

import (
	"log/slog"

	"github.com/open-nomad/open-nomad/client/access"
	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/client/consul"
	"github.com/open-nomad/open-nomad/client/driverset"
	"github.com/open-nomad/open-nomad/client/hoststats"
	"github.com/open-nomad/open-nomad/client/hostvolume"
	"github.com/open-nomad/open-nomad/client/nodeid"
	"github.com/open-nomad/open-nomad/client/nodemeta"
	"github.com/open-nomad/open-nomad/client/servers"
	"github.com/open-nomad/open-nomad/nomad/monitor"
	"github.com/open-nomad/open-nomad/nomad/profile"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/ticket"
)

// Config configures a Service. All fields are required unless noted.
type Config struct {
	Region string
	// AccessControl makes the node check the tokens of relayed calls without a ticket.
	AccessControl     bool
	DisableRemoteExec bool
	Session           string // the ID of the agent's session
	Identity          *nodeid.Identity
	Servers           servers.Caller
	Access            *access.Resolver
	Tickets           *ticket.Verifier

	Node      Node
	Allocs    *allocs.Set
	Checks    *check.Set
	Consul    consul.States // nil: the node has no Consul
	Drivers   *driverset.Set
	Artifacts *artifact.Fetcher
	Volumes   *hostvolume.Manager
	CSI       CSI
	Host      *hoststats.Host
	Meta      *nodemeta.Meta
	Monitor   *monitor.Source // nil refuses to stream the log
	Profiles  *profile.Source // nil refuses them

	Observer rpc.Observer
	Log      *slog.Logger
}

// Service serves the methods of a node.
type Service struct {
	cfg          Config
	relayed      *rpc.Server
	local        *rpc.Server
	localMethods map[string]bool
}

// New returns a Service.
func New(cfg Config) (*Service, error) {
	s := &Service{cfg: cfg, localMethods: map[string]bool{}}
	var relayed, local []rpc.Method
	for _, m := range s.methods() {
		relayed = append(relayed, m.relayed)
		if m.local.Name != "" {
			local, s.localMethods[m.local.Name] = append(local, m.local), true
		}
	}
	conf := rpc.Config{Methods: relayed, Auth: rpc.TrustPeer{}, Observer: cfg.Observer, Log: cfg.Log}
	var err error
	if s.relayed, err = rpc.NewServer(conf); err != nil {
		return nil, err
	}
	conf.Methods = local
	s.local, err = rpc.NewServer(conf)
	return s, err
}

// Relayed returns the server for calls that servers relay over sessions that the node opened. Their callers are not
// authenticated by the connection, so that the handlers check their rights.
func (s *Service) Relayed() *rpc.Server { return s.relayed }

// Local returns the caller for a method about nodes and allocations, for the agent of this
// process. It answers requests about this node locally. It is nil for every other method.
func (s *Service) Local(method string) servers.Caller {
	if !s.localMethods[method] {
		return nil
	}
	return s.local
}
