package config

import "github.com/open-nomad/open-nomad/command/agent/consulapi"

// checkConsulAPI checks the address of the Consul API.
func (s *Settings) checkConsulAPI() error {
	address := s.Client.ConsulAPI.Address
	if address == "" {
		return nil
	}
	if err := consulapi.CheckAddress(address); err != nil {
		return s.Fault("client.consul_api.address", "%v", err)
	}
	return nil
}
