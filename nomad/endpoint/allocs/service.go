// Package allocs answers the RPC methods of allocations: reads, stops, and the identities of
// their tasks and services.
//
// A node gets the allocations that were placed on it, with their identities. All other callers
// get them without (nomad.Allocation.Public). Calls that the node of an allocation answers are
// in nomad/endpoint/relay.
package allocs

import (
	"sync"

	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
)

// Service handles the RPC methods of allocations.
type Service struct {
	*handler.Core
	moves sync.Mutex // held while a move is checked and written, so that the next check sees it
}

// New returns a Service.
func New(core *handler.Core) *Service { return &Service{Core: core} }
