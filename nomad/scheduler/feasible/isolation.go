package feasible

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// isolation adds the isolation level that each driver of the group must have on a node. The names
// that jobs use are those of instances, so that their attributes are compared.
func (g *Group) isolation(ns *nomad.Namespace, tg *nomad.TaskGroup) {
	levels := map[string]drivers.Level{}
	var order []string
	for _, t := range tg.Tasks {
		if _, seen := levels[t.Driver]; !seen {
			order = append(order, t.Driver)
		}
		levels[t.Driver] = max(levels[t.Driver], kinds.Required(ns, t))
	}
	for _, driver := range order {
		least := levels[driver]
		if least == drivers.LevelNone {
			continue
		}
		text := fmt.Sprintf("driver %q is below isolation level %q", driver, least)
		g.add(false, demand{check: CheckLevel, text: text, need: fmt.Sprintf("driver %q with isolation level %q", driver, least),
			met:   func(n *nomad.Node) bool { return kinds.LevelOn(n, driver) >= least },
			found: func(n *nomad.Node) string { return kinds.LevelOn(n, driver).String() }})
	}
}
