// Package nodepools answers the RPC methods of node pools, and lists the jobs and nodes of one.
// Only pools without nodes and jobs are deleted. All regions share the pools: the method table
// sends writes to the authoritative region.
package nodepools

import "github.com/open-nomad/open-nomad/nomad/endpoint/handler"

// Service handles the RPC methods of node pools.
type Service struct{ *handler.Core }

// New returns a Service.
func New(core *handler.Core) *Service { return &Service{Core: core} }
