package consul

import (
	"errors"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
)

// errConnect is the error of services of the service mesh.
var errConnect = errors.New("this client does not register services with a connect block: remove the block")

// connectOf returns what the service mesh adds to the registration r of a service. It may set the kind of r.
func connectOf(_ *service.Workload, s *nomad.Service, _ *api.AgentServiceRegistration) (
	*api.AgentServiceConnect, *api.AgentServiceConnectProxyConfig, error) {
	if s.Connect != nil {
		return nil, nil, errConnect
	}
	return nil, nil, nil
}
