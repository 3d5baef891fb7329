package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/client/hostvolume"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
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
	d := &dynamicVolumes{static: static}
	d.Manager = hostvolume.New(hostvolume.Config{VolumesDir: c.cfg.HostVolumesDir, PluginDir: c.cfg.HostVolumePluginDir,
		NodeID: c.id.ID, NodePool: c.cfg.NodePool, Private: []string{c.cfg.StateDir, c.cfg.AllocDir}, Store: c.db, Changed: c.volumesChanged, Users: c.volumeUsers, Log: c.log})
	return d
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

// volumeUsers returns the IDs of the allocations that use a volume and have not ended, sorted. Those of an earlier agent
// count once they are restored.
func (c *Client) volumeUsers(ctx context.Context, name string) ([]string, error) {
	select {
	case <-c.allocs.loaded:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the allocations of the previous agent: %w", context.Cause(ctx))
	}
	return c.allocs.users(name), nil
}

// users returns the IDs of the allocations that request a host volume and have not ended, sorted.
func (s *allocSet) users(volume string) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, h := range s.held {
		if (h.status == nil || !h.status.ClientTerminalStatus()) && h.endedAt.IsZero() && h.alloc.UsesHostVolume(volume) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// volumesChanged registers the node with its current volumes.
func (c *Client) volumesChanged() {
	c.node.update(func(n *nomad.Node) { n.HostVolumes = c.volumes.all() })
	raise(c.node.changed)
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
	raise(c.node.changed)
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

// volumeCreate creates a volume for the servers. They have checked the rights of the caller.
func (c *Client) volumeCreate(ctx context.Context, _ *rpc.Call, req *message.ClientHostVolumeCreateRequest) (*message.ClientHostVolumeCreateResponse, error) {
	return c.volumes.Create(ctx, req)
}

// volumeRegister registers a volume for the servers.
func (c *Client) volumeRegister(_ context.Context, _ *rpc.Call, req *message.ClientHostVolumeRegisterRequest) (*message.ClientHostVolumeRegisterResponse, error) {
	return &message.ClientHostVolumeRegisterResponse{}, c.volumes.Register(req)
}

// volumeDelete deletes a volume for the servers.
func (c *Client) volumeDelete(ctx context.Context, _ *rpc.Call, req *message.ClientHostVolumeDeleteRequest) (*message.ClientHostVolumeDeleteResponse, error) {
	return &message.ClientHostVolumeDeleteResponse{VolumeName: req.Name, VolumeID: req.ID}, c.volumes.Delete(ctx, req)
}
