package client

import (
	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/drivers/process"
)

// allocHooks returns the dependencies of the hooks of allocations.
func (c *Client) allocHooks() allochook.Deps {
	return allochook.Deps{AllocDir: c.cfg.AllocDir, Networks: c.connections, Drivers: c.drivers, Connections: c.connections,
		Services: c.services, Checks: c.checks, Users: c.users, Peers: peers{c}}
}

// taskHooks returns the dependencies of the hooks of tasks.
func (c *Client) taskHooks() taskhook.Deps {
	return taskhook.Deps{
		Users: c.users, API: c.api, HostEnv: c.cfg.HostEnv,
		Confiner:   &process.Confiner{Sidecars: &c.groups, Own: c.cfg.OwnDirs},
		Artifacts:  c.artifacts,
		Volumes:    c.volumes.usable,
		Template:   c.cfg.Template,
		StatsEvery: c.cfg.Metrics.Every, Sampler: c.sampler, Metrics: c.cfg.Metrics.Tasks,
		Services: c.services, Scripts: c.checks,
		Sinks:  c.sinks,
		Spiffe: &taskhook.Spiffe{RPC: c.calls, Region: c.cfg.Region, Bundles: c.bundles},
	}
}
