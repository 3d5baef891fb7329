package client

import (
	"context"
	"maps"
	"time"

	"github.com/open-nomad/open-nomad/client/hostvolume"
	"github.com/open-nomad/open-nomad/nomad"
)

// volumePatience limits how long the start waits for the plugins of dynamic host volumes. They go on after it.
const volumePatience = 5 * time.Second

// PluginFingerprinter is the name of the fingerprinter of host volume plugins in client options.
const PluginFingerprinter = "host_volume_plugins"

// dynamicVolumes holds the dynamic host volumes of the node and adds them to the static ones.
type dynamicVolumes struct {
	*hostvolume.Manager
	static  map[string]*nomad.ClientHostVolumeConfig
	plugins map[string]string // attributes of the plugins; used by one goroutine at a time
}

func (c *Client) newDynamicVolumes(static map[string]*nomad.ClientHostVolumeConfig) *dynamicVolumes {
	users := func(ctx context.Context, volume string) ([]string, error) { return c.allocs.VolumeUsers(ctx, volume) }
	return &dynamicVolumes{static: static, Manager: hostvolume.New(hostvolume.Config{
		VolumesDir: c.cfg.HostVolumesDir, PluginDir: c.cfg.HostVolumePluginDir, NodeID: c.id.ID, NodePool: c.cfg.NodePool,
		Private: []string{c.cfg.StateDir, c.cfg.AllocDir}, Store: c.db, Changed: c.volumesChanged, Users: users, Log: c.log,
	})}
}

// all returns the volumes of the node. A dynamic volume replaces a static one of the same name.
func (d *dynamicVolumes) all() map[string]*nomad.ClientHostVolumeConfig {
	out := maps.Clone(d.static)
	maps.Copy(out, d.Volumes())
	return out
}

// usable returns the volumes that tasks may mount now. While a dynamic volume is deleted, its name has none.
func (d *dynamicVolumes) usable() map[string]*nomad.ClientHostVolumeConfig {
	return withoutClosed(d.all(), d.Usable())
}

// withoutClosed removes from all volumes the dynamic ones that are not usable.
func withoutClosed(all, usable map[string]*nomad.ClientHostVolumeConfig) map[string]*nomad.ClientHostVolumeConfig {
	maps.DeleteFunc(all, func(name string, v *nomad.ClientHostVolumeConfig) bool { return v.ID != "" && usable[name] == nil })
	return all
}

// volumesChanged registers the node with its current volumes.
func (c *Client) volumesChanged() {
	c.node.update(func(n *nomad.Node) { n.HostVolumes = c.volumes.all() })
	c.node.changed.Send()
}

// fingerprintVolumePlugins replaces the attributes of the host volume plugins.
func (c *Client) fingerprintVolumePlugins(ctx context.Context) {
	if !c.cfg.Fingerprint.Allows(PluginFingerprinter) {
		return
	}
	found := c.volumes.Fingerprint(ctx)
	before := c.volumes.plugins
	c.volumes.plugins = found
	if maps.Equal(before, found) {
		return
	}
	c.node.update(func(n *nomad.Node) {
		for name := range before {
			delete(n.Attributes, name)
		}
		maps.Copy(n.Attributes, found)
	})
	c.node.changed.Send()
}

// restoreVolumes creates the volumes of an earlier agent again. It waits for volumePatience at most. A slow plugin then
// goes on until Run returns, and the node is registered again when its volume exists.
func (c *Client) restoreVolumes(ctx context.Context) {
	done := make(chan struct{})
	c.background.Go(func() {
		defer close(done)
		c.fingerprintVolumePlugins(ctx)
		if err := c.volumes.Restore(ctx); err != nil {
			c.log.Error("restore host volumes", "err", err)
		}
		close(c.volumesRestored)
	})
	timer := time.NewTimer(volumePatience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		c.log.Warn("registering before every host volume is restored")
	case <-ctx.Done():
	}
}
