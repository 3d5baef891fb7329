package driverset

import (
	"github.com/hashicorp/hcl/v2/hcldec"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// Schema returns the schema with the digest that a detected driver reported.
func (s *Set) Schema(digest string) (schema.Schema, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sc := range s.schemas {
		if sc.Digest == digest {
			return sc, true
		}
	}
	return schema.Schema{}, false
}

// describe keeps the schema of a driver's tasks and returns its digest. It returns "" for a driver
// without a schema: a plugin has none before it was configured once.
func (s *Set) describe(name string, d drivers.Driver) string {
	spec := d.TaskSpec()
	if object, ok := spec.(hcldec.ObjectSpec); spec == nil || ok && len(object) == 0 {
		return ""
	}
	sc, err := schema.Of(spec)
	if err != nil {
		s.log.Warn("encode the schema of a driver: the servers do not check configs of its tasks", "driver", name, "err", err)
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schemas[name] = sc
	return sc.Digest
}
