package feasible

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/kinds"
)

// privilegeDemand is what a task demands of the privilege of its driver: a task with privileged =
// true needs a node that offers it, and a task that needs it without having it a node with the legacy
// behaviour. The kind of a driver can differ between nodes.
func privilegeDemand(t *nomad.Task, table kinds.Table) demand {
	if t.Privileged {
		return demand{check: CheckPrivilege, text: fmt.Sprintf("missing privilege of driver %q", t.Driver),
			need: fmt.Sprintf("driver %q offers privilege", t.Driver), met: func(n *nomad.Node) bool { return table.Offers(n, t.Driver) }}
	}
	return demand{check: CheckPrivilege, text: fmt.Sprintf("task %q needs privileged = true for driver %q", t.Name, t.Driver),
		need:  fmt.Sprintf("task %q needs no privilege of driver %q", t.Name, t.Driver),
		met:   func(n *nomad.Node) bool { return table.Needs(n, t) == "" || table.Legacy(n, t.Driver) },
		found: func(n *nomad.Node) string { return table.Needs(n, t) }}
}
