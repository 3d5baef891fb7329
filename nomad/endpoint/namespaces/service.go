// Package namespaces handles the RPC methods of namespaces, and of the quotas that limit them. Both are written in the
// authoritative region and replicated to the others. The usage of a quota is that of this region.
package namespaces

import "github.com/open-nomad/open-nomad/nomad/endpoint/handler"

// Service handles the methods of namespaces and quotas.
type Service struct{ *handler.Core }

// New returns a Service.
func New(core *handler.Core) *Service { return &Service{Core: core} }
