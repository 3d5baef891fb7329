// Package servers handles the RPC methods about the servers themselves. These are status and members, the Raft,
// Autopilot and scheduler configurations, garbage collection, and snapshots of the state.
//
//   - A snapshot is complete and checked before the first byte is sent, and before the state is replaced.
//   - The package starts no goroutine.
package servers

import "github.com/open-nomad/open-nomad/nomad/endpoint/handler"

// Config configures a Service. All fields are required unless noted.
type Config struct {
	Name       string // of this server
	Datacenter string
	Warning    string // about the configuration, for the health of the servers; optional
	Voters     Voters
	Autopilot  Autopilot
	Snapshots  Snapshots
}

// Service handles the methods about the servers.
type Service struct {
	*handler.Core
	cfg Config
}

// New returns a Service.
func New(core *handler.Core, cfg Config) *Service { return &Service{Core: core, cfg: cfg} }
