// Package relay forwards calls and streams to the node that handles them: file reads, logs, exec
// sessions, statistics and the lifecycle of allocations.
//
//	caller ─▶ this server ─▶ node, if it is connected to this server
//	                └──────▶ the server that the node is connected to ─▶ node
//
// The server checks the caller's rights. It replaces the caller's token by a ticket that is valid
// for one call, so that nodes do not get the tokens of callers. A Target resolves the node of a
// request. The package stores nothing.
package relay

import (
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/monitor"
	"github.com/open-nomad/open-nomad/nomad/profile"
)

// Config configures a Service.
type Config struct {
	// TokensToNodes allows relaying callers' tokens to nodes that do not accept tickets.
	TokensToNodes bool
	// Monitor is the log of this server; nil refuses to stream it.
	Monitor *monitor.Source
	// Profiles are the profiles of this agent; nil refuses them.
	Profiles *profile.Source
}

// Service relays calls to nodes.
type Service struct {
	*handler.Core
	cfg Config
}

// New returns a Service.
func New(core *handler.Core, cfg Config) *Service { return &Service{Core: core, cfg: cfg} }
