package feasible

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
)

// Configs checks the config blocks of tasks against the schemas of drivers.
type Configs interface {
	// Fault returns why the schema with the digest does not accept a block, or "" if it does. A schema
	// that is not known accepts every block: the node checks it again.
	Fault(digest string, block map[string]any) string
}

// config demands that the node's driver accepts the config block of a task.
func (g *Group) config(t *nomad.Task, configs Configs) {
	if configs == nil {
		return
	}
	faults := map[string]string{} // by digest
	fault := func(n *nomad.Node) string {
		digest := n.SchemaDigest(t.Driver)
		why, known := faults[digest]
		if !known && digest != "" {
			why = configs.Fault(digest, t.Config)
			faults[digest] = why
		}
		return why
	}
	g.add(false, demand{
		check: CheckConfig, text: fmt.Sprintf("config of task %q", t.Name),
		met:  func(n *nomad.Node) bool { return fault(n) == "" },
		need: fmt.Sprintf("driver %q accepts the config of task %q", t.Driver, t.Name), found: fault,
		reason: func(n *nomad.Node) string { return fmt.Sprintf("task %q: %s", t.Name, fault(n)) },
	})
}
