package consul

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// maxRegistration limits a registration in JSON, in bytes. The lists of Consul have the registrations of all services of the
// node, and a list above consul.MaxAnswer cannot be read.
const maxRegistration = 256 << 10

// bounded returns an error if a registration has more text after interpolation than the servers accept before it, or too much
// in all. A short reference in many tags can become any text.
func bounded(r *api.AgentServiceRegistration) error {
	declared := catalog.Registration{Tags: r.Tags, Meta: r.Meta, TaggedAddresses: map[string]catalog.TaggedAddress{}}
	for name, a := range r.TaggedAddresses {
		declared.TaggedAddresses[name] = catalog.TaggedAddress{Address: a.Address, Port: a.Port}
	}
	if err := declared.CheckDeclared(); err != nil {
		return fmt.Errorf("service %q: %w", r.Name, err)
	}
	text, err := json.Marshal(r)
	if err == nil && len(text) > maxRegistration {
		err = fmt.Errorf("its registration has %d bytes: at most %d", len(text), maxRegistration)
	}
	if err != nil {
		return fmt.Errorf("service %q: %w", r.Name, err)
	}
	return nil
}
