// Package searches handles the RPC methods of searches by prefix and by text. The search itself, and the rights that it
// checks for each kind of object, are in package search.
package searches

import (
	"cmp"

	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/search"
)

// Service handles the methods of searches.
type Service struct {
	*handler.Core
	limits search.Limits
}

// New returns a Service. It sets the defaults of the limits.
func New(core *handler.Core, limits search.Limits) *Service {
	limits.Gathered, limits.Results = cmp.Or(limits.Gathered, 20), cmp.Or(limits.Results, 100)
	limits.MinText = cmp.Or(limits.MinText, 2)
	return &Service{Core: core, limits: limits}
}
