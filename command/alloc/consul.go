package alloc

import (
	"cmp"
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// printConsul prints the services of an allocation that its node registers in Consul. It prints nothing without any, or if
// the node does not answer.
func printConsul(ctx context.Context, e *term.Env, c *api.Client, a *api.Allocation) {
	if !hasService(a, func(s *api.Service) bool { return s.Provider == "consul" }) {
		return
	}
	services, err := c.Allocations().ConsulServices(a.ID, query(ctx, a))
	if err != nil || len(services) == 0 {
		return
	}
	rows := []string{"Service|Task|Status|Since|Error"}
	for _, s := range services {
		since := "-"
		if !s.Since.IsZero() {
			since = term.Time(s.Since)
		}
		rows = append(rows, term.Row(s.Name, cmp.Or(s.Task, "(group)"), s.Status, since, cmp.Or(s.Error, "-")))
	}
	e.Printf("\nConsul Services:\n%s\n", term.Table(rows))
}
