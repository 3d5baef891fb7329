package client

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
)

// unusedName is a directory below the state directory in which earlier versions created
// directories ahead of time.
const unusedName = "spare"

// prepare fingerprints the node while the drivers fingerprint themselves, and restores the
// allocations of the previous agent.
func (c *Client) prepare(ctx context.Context) error {
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
	c.node.setDrivers(c.drivers.Infos())
	c.awaitClouds(ctx)
	c.restoreVolumes(ctx)
	allocs, errs := c.db.Allocs()
	for _, err := range errs {
		c.log.Error("restore allocation", "err", err)
		if bad, ok := errors.AsType[*state.AllocError](err); ok {
			c.allocs.setUnrestored(bad.ID) // its processes are ended as orphans
		}
	}
	c.openNetworks()
	c.findLeft(allocs)
	if boot, err := c.db.Boot(); err != nil {
		return err
	} else if boot == "" || c.session.BootID == "" || boot == c.session.BootID {
		c.allocs.restore(allocs)
	} else {
		c.waiting = allocs
	}
	return context.Cause(ctx) // the error of a fingerprinter that must not fail
}

// removeUnrestored removes the directories, networks and stored states of allocations that could not be restored. Their
// processes have ended.
func (c *Client) removeUnrestored() {
	c.allocs.removeUnrestored(func(_ context.Context, id string) error {
		if err := allocdir.Destroy(c.cfg.AllocDir, id); err != nil {
			return err
		}
		c.connections.left.add(id)
		c.users.Release(id)
		return c.db.DeleteAlloc(id)
	})
}

// awaitRestore waits until the drivers have been asked to recover the tasks of an earlier agent
// and orphans is closed, for at most restorePatience.
func (c *Client) awaitRestore(ctx context.Context, orphans <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, restorePatience)
	defer cancel()
	c.allocs.awaitRecovery(ctx)
	select {
	case <-orphans:
	case <-ctx.Done():
	}
}

// Restored returns a channel that is closed when the allocations of the previous agent are
// restored, so that requests about them can be answered. It stays open if restoring fails; Run
// then returns the error.
func (c *Client) Restored() <-chan struct{} { return c.restoredAll }
