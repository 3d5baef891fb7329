package mounts

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientcsi "github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Time limits.
const (
	endPatience = 10 * time.Second // for the end of an allocation that the servers release
	clearLimit  = 2 * time.Second  // for a plugin, when an agent removes its files
)

// Detach unmounts the volume of an ended allocation for the servers. A volume that is not mounted is not an error. The servers
// may count an allocation as ended that still runs here: its volume stays.
func (m *Manager) Detach(ctx context.Context, req *message.ClientCSINodeDetachVolumeRequest) error {
	switch {
	case req.PluginID == "":
		return errors.New("PluginID is required")
	case req.VolumeID == "":
		return errors.New("VolumeID is required")
	case req.AllocID == "":
		return errors.New("AllocID is required")
	}
	mine := func(r *state.CSIMount) bool {
		return r.AllocID == req.AllocID && r.VolumeID == req.VolumeID && r.Namespace == req.VolumeNamespace
	}
	soon, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	_ = m.await(soon, func(r *state.CSIMount) bool { return mine(r) && live(r.State) }) // unmount reports it
	var errs []error
	for _, r := range m.list() {
		if mine(r) {
			errs = append(errs, m.unmount(ctx, r.Key(), byPlugin))
		}
	}
	return errors.Join(errs...)
}

// Expand lets the plugin expand the file system of a mounted volume, for the servers. It returns the size in bytes, 0 if the
// plugin does not know it.
func (m *Manager) Expand(ctx context.Context, req *message.ClientCSINodeExpandVolumeRequest) (int64, error) {
	switch {
	case req.PluginID == "":
		return 0, errors.New("PluginID is required")
	case req.VolumeID == "":
		return 0, errors.New("VolumeID is required")
	case req.Claim == nil || req.Claim.AllocationID == "":
		return 0, errors.New("claim with an AllocationID is required")
	}
	var size int64
	found := false
	for _, r := range m.list() {
		if r.AllocID != req.Claim.AllocationID || r.VolumeID != req.VolumeID || r.Namespace != req.VolumeNamespace {
			continue
		}
		found = true
		n, err := m.expand(ctx, r, req.Capacity)
		if err != nil {
			return 0, fmt.Errorf("expand volume %q for allocation %s: %w", r.VolumeID, r.AllocID, err)
		}
		size = max(size, n)
	}
	if !found {
		return 0, fmt.Errorf("expand volume %q: allocation %s does not use it on this node", req.VolumeID, req.Claim.AllocationID)
	}
	return size, nil
}

func (m *Manager) expand(ctx context.Context, r *state.CSIMount, capacity *csi.CapacityRange) (int64, error) {
	leave, err := m.queues.enter(ctx, queuesOf(r.Namespace, r.VolumeID, r.PluginID, r.ExternalID)...)
	if err != nil {
		return 0, err
	}
	defer leave()
	if r = m.use(r.Key()); r == nil || r.State != mounted {
		return 0, errors.New("it is not mounted: its file system is expanded when it is mounted again")
	}
	plugin, inst, err := m.cfg.Plugins.Current(r.PluginID)
	if err != nil {
		return 0, err
	}
	req := clientcsi.ExpandRequest{Volume: r.ExternalID, Path: inst.TaskRoot + "/" + r.Target, Capacity: capacity,
		Capability: csi.Capability{AttachmentMode: r.AttachmentMode, AccessMode: r.AccessMode}}
	if r.Staging != "" {
		req.Staging = inst.TaskRoot + "/" + r.Staging
	}
	return plugin.NodeExpand(ctx, req)
}
