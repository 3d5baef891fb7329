package client

import (
	"time"

	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/nomad"
)

// openAllocs creates the set of allocations.
func (c *Client) openAllocs(Parts) error {
	c.allocs = allocs.New(allocs.Config{Dir: c.cfg.AllocDir, DB: c.db, Session: c.session.ID, Calls: c.calls, Drivers: c.drivers,
		Users: c.users, Node: allocNode{c}, GC: c.cfg.GC, Log: c.log})
	return nil
}

// allocNode is the client as its allocations need it.
type allocNode struct{ c *Client }

// NewRunner implements allocs.Node.
func (n allocNode) NewRunner(a *nomad.Allocation) (*allocrunner.Runner, error) {
	return n.c.newRunner(a)
}

// LastBeat implements allocs.Node.
func (n allocNode) LastBeat() time.Time {
	if ns := n.c.lastBeat.Load(); ns > 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// PullFailed implements allocs.Node. A heartbeat then registers the node again, if the servers do not have it.
func (n allocNode) PullFailed(err error) {
	if isNodeUnknown(err) {
		n.c.urgent.Send()
	}
}

// StateReplaced implements allocs.Node.
func (n allocNode) StateReplaced() { n.c.resendServices() }

// Abandon implements allocs.Node.
func (n allocNode) Abandon(alloc string) {
	n.c.networks.Abandon(alloc)
	if err := n.c.csi.mounts.End(alloc); err != nil {
		n.c.log.Error("release the CSI volumes of an allocation", "alloc", alloc, "err", err)
	}
}

func (c *Client) newRunner(a *nomad.Allocation) (*allocrunner.Runner, error) {
	node := c.node.current() // shared by the runners
	var perCore uint64
	if cores := node.NodeResources.Cpu.TotalCpuCores; cores > 0 {
		perCore = uint64(node.NodeResources.Cpu.CpuShares) / uint64(cores)
	}
	return allocrunner.New(allocrunner.Config{
		Alloc: a, Node: node, Region: c.cfg.Region, Store: c.db, Drivers: c.drivers, Users: c.users,
		RPC: c.calls, AllocHooks: c.allocHooks(), TaskHooks: c.taskHooks(),
		Update: c.allocs.Report, MaxKillTimeout: c.cfg.MaxKillTimeout, MHzPerCore: perCore, Log: c.log,
	})
}

// allocHooks returns the dependencies of the hooks of allocations.
func (c *Client) allocHooks() allochook.Deps {
	return allochook.Deps{AllocDir: c.cfg.AllocDir, Networks: c.networks, Drivers: c.drivers, Connections: c.networks,
		Services: c.services, Consul: c.inConsul(), Tokens: c.tokens, Vault: c.inVault, Checks: c.checks, Users: c.users, Mesh: c.mesh,
		CSI: c.csi.mounts, Peers: allocs.Peers{Set: c.allocs, TLS: c.tls}}
}

// taskHooks returns the dependencies of the hooks of tasks.
func (c *Client) taskHooks() taskhook.Deps {
	return taskhook.Deps{
		Users: c.users, API: c.api, HostEnv: c.cfg.HostEnv, Denied: c.cfg.DeniedUsers,
		Confiner:   &process.Confiner{Sidecars: &c.groups, AgentDirs: c.cfg.OwnDirs},
		Artifacts:  c.artifacts,
		Secrets:    c.secrets,
		Volumes:    c.volumes.usable,
		CSIVolumes: c.csi.mounts,
		Devices:    c.devices,
		Template:   c.cfg.Template,
		ReadConsul: c.cfg.Consul.defaultAgent(), ReadVault: c.cfg.Vault.defaultCluster(),
		StatsEvery: c.cfg.Metrics.Every, Sampler: c.sampler, Metrics: c.cfg.Metrics.Tasks,
		Services: c.services, Consul: c.inConsul(), Checks: c.checks,
		Mesh: c.mesh, Sinks: c.sinks, DNS: c.taskDNS(), CSI: c.taskCSI(),
		Spiffe: &taskhook.Spiffe{RPC: c.calls, Region: c.cfg.Region, Bundles: c.bundles},
	}
}
