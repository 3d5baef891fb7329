// Package relay passes calls and streams on to the node that answers them: file reads, logs,
// exec sessions, statistics and the lifecycle of allocations.
//
//	caller ─▶ this server ─▶ node, when its session is here
//	                └──────▶ the server with its session ─▶ node
//
// The server checks the caller's rights and replaces its token by a ticket for the one call, so
// that a node never gets the token of a caller. The node that a request is about is a Target.
// Nothing is stored.
package relay

import "github.com/open-nomad/open-nomad/nomad/endpoint/handler"

// Config configures a Service.
type Config struct {
	// TokensToNodes allows relaying callers' tokens to nodes that do not accept tickets.
	TokensToNodes bool
}

// Service relays calls to nodes.
type Service struct {
	*handler.Core
	cfg Config
}

// New returns a Service.
func New(core *handler.Core, cfg Config) *Service { return &Service{Core: core, cfg: cfg} }
