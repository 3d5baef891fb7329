package server

import (
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// served returns the features of jobs that this region supports because it has Consul or Vault.
func (s *Server) served(snap *state.Snapshot) (out []string) {
	if s.consul.Mode(snap) == consul.Consul {
		out = jobrules.ConsulFeatures()
	}
	if s.cfg.Vault.Enabled(vault.DefaultCluster) {
		out = append(out, jobrules.VaultFeatures()...)
	}
	return out
}
