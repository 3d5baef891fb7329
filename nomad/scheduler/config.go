package scheduler

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// configs checks config blocks against the schemas of the state.
type configs struct {
	set  *schema.Set
	snap State
}

// rules returns what decides about nodes beside the job.
func (b *base) rules() feasible.Rules {
	out := feasible.Rules{Namespace: b.snap.Namespace(nil, b.job.Namespace), Kinds: b.kinds,
		Volumes: func(node, name string) *nomad.HostVolume { return b.snap.HostVolumeOn(nil, node, name) }}
	if b.schemas != nil {
		out.Configs = configs{b.schemas, b.snap}
	}
	return out
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
