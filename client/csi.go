package client

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/client/csi/instances"
	"github.com/open-nomad/open-nomad/client/csi/mounts"
	"github.com/open-nomad/open-nomad/client/endpoint"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
)

// pluginPatience limits how long the first registration waits for the health of CSI plugins.
const pluginPatience = 5 * time.Second

// csiNode holds the CSI plugins and volumes of the node.
type csiNode struct {
	dir      string // <state dir>/csi
	plugins  *instances.Set
	mounts   *mounts.Manager
	restored chan struct{} // closed when the plugins and volumes of an earlier agent are known
	ended    chan struct{} // closed when nothing releases volumes any more
}

// openCSI creates the plugins and volumes of the node.
func (c *Client) openCSI(Parts) error {
	n := &csiNode{dir: filepath.Join(c.cfg.StateDir, "csi"), restored: make(chan struct{}), ended: make(chan struct{})}
	n.plugins = instances.New(instances.Config{Store: c.db, Known: c.allocs.Had,
		Changed: c.pluginsChanged, Emit: c.events.emit, Log: c.log})
	n.mounts = mounts.New(mounts.Config{Dir: n.dir, NodeID: c.id.ID, Boot: mounts.Boot(), Plugins: mounts.Of(n.plugins), Store: c.db, Calls: c.calls,
		Emit: c.events.emit, Log: c.log})
	c.csi = n
	return nil
}

// pluginsChanged registers the node with its current plugins.
func (c *Client) pluginsChanged() {
	c.setPlugins()
	c.node.changed.Send()
}

func (c *Client) setPlugins() {
	controllers, nodes := c.csi.plugins.Infos()
	c.node.update(func(n *nomad.Node) { n.CSIControllerPlugins, n.CSINodePlugins = controllers, nodes })
}

// restoreCSI restores the plugins and volumes of an earlier agent. It must run before the allocations are restored.
func (c *Client) restoreCSI() {
	if err := c.csi.plugins.Restore(); err != nil {
		c.log.Error("restore CSI plugins", "err", err)
	}
	if err := c.csi.mounts.Restore(); err != nil {
		c.log.Error("restore CSI volumes", "err", err)
	}
	if err := c.csi.mounts.Leftovers(c.allocs.Had); err != nil {
		c.log.Error("release the CSI volumes of allocations that do not exist", "err", err)
	}
	if err := c.csi.removeSockets(c.allocs.Had); err != nil {
		c.log.Warn("remove the directories of sockets of CSI plugins", "err", err)
	}
	close(c.csi.restored)
}

// removeSockets removes the directories of sockets of allocations that the node does not have any more.
func (n *csiNode) removeSockets(has func(alloc string) bool) error {
	entries, err := os.ReadDir(filepath.Join(n.dir, taskhook.CSISockets))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if !has(e.Name()) {
			errs = append(errs, taskhook.RemoveCSISocket(n.dir, e.Name()))
		}
	}
	return errors.Join(errs...)
}

// runCSI runs the plugins and volumes of the node until ctx ends.
func (c *Client) runCSI(ctx context.Context) error {
	defer close(c.csi.ended)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.csi.restored:
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.csi.plugins.Run(ctx) })
	group.Go(func() error { return c.csi.mounts.Run(ctx) })
	return group.Wait()
}

// awaitPlugins waits for the health of the plugins that an earlier agent had, so that the node is not registered without them.
func (c *Client) awaitPlugins(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pluginPatience)
	defer cancel()
	if err := c.csi.plugins.Ready(ctx); err != nil {
		c.log.Warn("registering before every CSI plugin has answered")
	}
	c.setPlugins()
}

// taskCSI returns what tasks that are plugins need.
func (c *Client) taskCSI() *taskhook.CSI {
	return &taskhook.CSI{Dir: c.csi.dir, Plugins: c.csi.plugins, Share: mounts.Share, Quiet: c.csi.quiet}
}

// quiet waits until no volume of a plugin is being unmounted. It does not wait while the client ends.
func (n *csiNode) quiet(ctx context.Context, plugin string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-n.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return n.mounts.Quiet(ctx, plugin)
}

// calledCSI returns what servers call.
func (c *Client) calledCSI() endpoint.CSI {
	return endpoint.CSI{Plugins: c.csi.plugins, Mounts: c.csi.mounts}
}
