package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/nomad"
)

// kernelBoot holds a UUID that the kernel generates at each boot.
const kernelBoot = "/proc/sys/kernel/random/boot_id"

// newSession returns the session of this process. Without the boot ID, servers detect copies of
// a node later.
func newSession(bootFile, nodeID string, log *slog.Logger) *nomad.NodeSession {
	if bootFile == "" {
		bootFile = kernelBoot
	}
	s := &nomad.NodeSession{ID: nomad.NewID()}
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		log.Warn("read the boot ID, registering without it", "err", err)
		return s
	}
	sum := sha256.Sum256([]byte(nodeID + "\n" + strings.TrimSpace(string(boot))))
	s.BootID = hex.EncodeToString(sum[:])
	return s
}

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
