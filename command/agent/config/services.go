package config

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad/consul"
)

// Services is the server.services block. Nomad does not have it.
type Services struct {
	Consul string `hcl:"consul"`
}

// checkServices checks the server.services block.
func (s *Settings) checkServices() error {
	if c := s.Server.Services.Consul; c != "" && !slices.Contains(consul.Modes, consul.Mode(c)) {
		return s.Fault("server.services.consul", "must be nomad, consul, refuse or empty, not %q", c)
	}
	return nil
}
