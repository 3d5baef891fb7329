package job

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/drivers"
	plugin "github.com/open-nomad/open-nomad/plugins/drivers"
)

// sandboxed holds the drivers of a job, by name, whose sandboxes report denials that the options of a
// task can allow.
type sandboxed map[string]bool

// sandboxedDrivers returns those of a job. A name that is not built-in is that of an instance, whose
// kind the nodes report.
func sandboxedDrivers(ctx context.Context, c *api.Client, j *api.Job) (sandboxed, error) {
	kinds, out := drivers.Table(), sandboxed{}
	others := map[string]bool{}
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if k := kinds[t.Driver]; k != nil {
				out[t.Driver] = k.Unveils
			} else {
				others[t.Driver] = true
			}
		}
	}
	if len(others) == 0 {
		return out, nil
	}
	nodes, _, err := c.Nodes().List((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("Error querying the nodes for the drivers of the job: %w", err)
	}
	for _, n := range nodes {
		for name := range others {
			if k := kinds[backendOf(n, name)]; k != nil {
				out[name] = out[name] || k.Unveils
			}
		}
	}
	return out, nil
}

// backendOf returns the kind of a driver on a node, or "".
func backendOf(n *api.NodeListStub, driver string) string {
	if d := n.Drivers[driver]; d != nil {
		return d.Attributes[plugin.Attribute(driver, plugin.BackendKey)]
	}
	return ""
}
