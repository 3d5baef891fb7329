package server

import (
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// servedConsul returns the features of jobs that this region supports because it has Consul.
func (s *Server) servedConsul(snap *state.Snapshot) []string {
	if s.consul.Mode(snap) != consul.Consul {
		return nil
	}
	return jobrules.ConsulFeatures()
}
