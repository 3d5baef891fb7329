package consul

import "github.com/open-nomad/open-nomad/nomad"

// LoginAlg is the signing algorithm of identities for Consul. An auth method that a command of Nomad created accepts no other.
const LoginAlg = nomad.IdentityAlgRS256

// Identities are those with which services and tasks of new jobs log in to Consul. nil adds none.
type Identities struct{ Service, Task *nomad.WorkloadIdentity }

// Identities returns the identities of the configuration. They must not be modified.
func (s *Services) Identities() Identities {
	if s == nil {
		return Identities{}
	}
	return Identities{Service: s.ServiceIdentity, Task: s.TaskIdentity}
}

// ServiceIdentityName returns the name of the identity with which a service logs in to Consul. task is the task of the
// service, or "" for a service of a group. References in the name remain.
func ServiceIdentityName(s *nomad.Service, task string) string {
	name := s.Name + "-" + s.PortLabel
	if task != "" {
		name = task + "-" + name
	}
	return "consul-service_" + name
}

// TaskIdentityName returns the name of the identity with which tasks log in to a cluster of Consul.
func TaskIdentityName(cluster string) string { return "consul_" + cluster }
