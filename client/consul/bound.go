package consul

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// maxRegistration limits a registration in JSON, in bytes. The lists of Consul have those of all services of the node, and are
// read every 30 s.
const maxRegistration = 256 << 10

// plain returns an error if what the job declares for a registration has more text after interpolation than the servers accept
// before it, or text that is not plain. A short reference in many tags can become any text.
func plain(r *api.AgentServiceRegistration) error {
	declared := catalog.Registration{Tags: r.Tags, Meta: r.Meta, TaggedAddresses: map[string]catalog.TaggedAddress{}}
	for name, a := range r.TaggedAddresses {
		declared.TaggedAddresses[name] = catalog.TaggedAddress{Address: a.Address, Port: a.Port}
	}
	return declared.CheckDeclared()
}

// bounded returns an error if a complete registration is too large.
func bounded(r *api.AgentServiceRegistration) error {
	text, err := json.Marshal(r)
	if err == nil && len(text) > maxRegistration {
		err = fmt.Errorf("its registration has %d bytes: at most %d", len(text), maxRegistration)
	}
	return err
}
