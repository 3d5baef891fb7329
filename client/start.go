package client

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/open-nomad/open-nomad/client/allocnet"
	"github.com/open-nomad/open-nomad/nomad"
)

// unusedName is a directory below the state directory in which earlier versions created
// directories ahead of time.
const unusedName = "spare"

// prepare fingerprints the node while the drivers fingerprint themselves, and restores the
// allocations of the previous agent. After a reboot it returns those that follow restores.
func (c *Client) prepare(ctx context.Context) (later []*nomad.Allocation, err error) {
	if err := os.RemoveAll(filepath.Join(c.cfg.StateDir, unusedName)); err != nil {
		c.log.Warn("remove the unused directories of an earlier version", "err", err)
	}
	c.facts = c.host.Run(ctx, c.log)
	c.node.update(func(n *nomad.Node) { c.facts.Apply(c.cfg.Fingerprint, n) })
	c.stats.SetSpeed(float64(c.node.copy().NodeResources.Cpu.CpuShares))
	patience, cancel := context.WithTimeout(ctx, driverPatience)
	defer cancel()
	if err := c.drivers.Ready(patience); err != nil && ctx.Err() == nil {
		c.log.Warn("registering before every driver has been fingerprinted")
	}
	// A node that registers without its devices would lose them for a moment. A plugin that does not answer
	// reports that within its own time limit.
	if c.devices.Ready(ctx) != nil {
		return nil, context.Cause(ctx)
	}
	c.node.setDrivers(c.drivers.Infos())
	c.node.setDevices(c.devices.Groups())
	c.awaitClouds(ctx)
	c.awaitSecrets(ctx)
	c.restoreVolumes(ctx)
	stored := c.allocs.Stored()
	has := func(alloc string) bool {
		return slices.ContainsFunc(stored, func(a *nomad.Allocation) bool { return a.ID == alloc })
	}
	c.tokens.Leftovers(has)
	c.inVault.Leftovers(has)
	c.restoreCSI()
	c.openNetworks()
	c.networks.AbandonOthers(stored)
	boot, err := c.db.Boot()
	switch {
	case err != nil:
		return nil, err
	case boot == "" || c.session.BootID == "" || boot == c.session.BootID:
		c.allocs.Restore(stored)
	default:
		c.allocs.RestoreLater(stored)
		later = stored
	}
	return later, context.Cause(ctx) // the error of a fingerprinter that must not fail
}

// openNetworks creates the networks of allocations, once the node is fingerprinted.
func (c *Client) openNetworks() {
	cfg := c.cfg.Networks
	cfg.AgentPorts = c.cfg.Fingerprint.Reserved.Agent
	cfg.Dir = filepath.Join(c.cfg.StateDir, "network")
	c.networks = allocnet.New(allocnet.Config{Network: cfg, Region: c.cfg.Region, Node: c.node.copy, Spaces: c.spaces, Log: c.log})
}

// follow runs the work of an agent that the servers accept as the node, until ctx ends. It
// restores allocations from before a reboot, sends statuses and pulls allocations. Another
// agent, such as one on a copy of the node's state, must do none of these.
func (c *Client) follow(ctx context.Context) error {
	c.attached.Store(true)
	defer c.attached.Store(false)
	if c.session.BootID != "" {
		if err := c.db.PutBoot(c.session.BootID); err != nil {
			c.log.Error("store the boot ID", "err", err)
		}
	}
	return c.allocs.Follow(ctx)
}
