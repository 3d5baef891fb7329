package client

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// attend runs the work of an agent that the servers accept as the node, until ctx ends. It
// restores allocations from before a reboot, sends statuses and pulls allocations. Another
// agent, such as one on a copy of the node's state, must do none of these.
func (c *Client) attend(ctx context.Context) error {
	c.attached.Store(true)
	defer c.attached.Store(false)
	if c.session.BootID != "" {
		if err := c.db.PutBoot(c.session.BootID); err != nil {
			c.log.Error("store the boot ID", "err", err)
		}
	}
	if c.allocs.restore(c.waiting); len(c.waiting) > 0 {
		c.removeUnrestored() // these processes have ended with the machine
	}
	c.waiting = nil
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.updates.Run(ctx) })
	group.Go(func() error { return c.pull(ctx) })
	return group.Wait()
}
