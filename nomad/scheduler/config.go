package scheduler

import (
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// configs checks config blocks against the schemas of the state.
type configs struct {
	set  *schema.Set
	snap State
}

// configs returns nil without schemas: then the config blocks of tasks are not checked.
func (b *base) configs() feasible.Configs {
	if b.schemas == nil {
		return nil
	}
	return configs{b.schemas, b.snap}
}

// Fault implements feasible.Configs.
func (c configs) Fault(digest string, block map[string]any) string {
	faults, _ := c.set.Faults(digest, block, func(digest string) []byte {
		if d := c.snap.DriverSchema(nil, digest); d != nil {
			return d.Spec
		}
		return nil
	})
	if len(faults) == 0 {
		return ""
	}
	return faults[0].String()
}
