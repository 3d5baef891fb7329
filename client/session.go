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

// kernelBoot is where the kernel tells a UUID that is new with each boot.
const kernelBoot = "/proc/sys/kernel/random/boot_id"

// newSession is that of this process. Without a boot the servers tell copies of a
// node apart later than with it.
func newSession(bootFile, nodeID string, log *slog.Logger) *nomad.NodeSession {
	if bootFile == "" {
		bootFile = kernelBoot
	}
	s := &nomad.NodeSession{ID: nomad.NewID()}
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		log.Warn("the servers are not told of the machine's boot", "err", err)
		return s
	}
	sum := sha256.Sum256([]byte(nodeID + "\n" + strings.TrimSpace(string(boot))))
	s.BootID = hex.EncodeToString(sum[:])
	return s
}

// attend does what only the agent does that the servers take for the node, until ctx
// ends: it takes up what an agent on an earlier boot ran, tells how allocations go,
// and pulls them. Another, as one with a copy of the node's state, must neither run
// the node's allocations nor report on them.
func (c *Client) attend(ctx context.Context) error {
	c.attached.Store(true)
	defer c.attached.Store(false)
	if c.session.BootID != "" {
		if err := c.db.PutBoot(c.session.BootID); err != nil {
			c.log.Error("store the boot", "err", err)
		}
	}
	c.allocs.restore(c.waiting)
	c.waiting = nil
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.updates.Run(ctx) })
	group.Go(func() error { return c.pull(ctx) })
	return group.Wait()
}
