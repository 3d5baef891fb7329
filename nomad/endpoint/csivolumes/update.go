package csivolumes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
)

// change is an update of a registered volume.
type change struct {
	old       *csi.Volume
	requested *csi.Volume
	plugin    *csi.Plugin
	// validate asks the plugin for its consent. Nil asks nobody.
	validate func(context.Context, *csi.Plugin, *csi.Volume, csi.Secrets) error
}

// update changes a registered volume, and expands it if the request has other capacities.
func (s *Service) update(ctx context.Context, c change) (uint64, error) {
	next, err := rules.CSIVolumeUpdate(c.old, c.requested)
	if err != nil {
		return 0, err
	}
	unlock, err := s.lockRemote(ctx, c.old)
	if err != nil {
		return 0, err
	}
	defer unlock()
	secrets, err := s.replaceSecrets(ctx, next, c.requested.Secrets)
	if err != nil {
		return 0, err
	}
	if c.validate != nil {
		if err := c.validate(ctx, c.plugin, next, secrets); err != nil {
			return 0, err
		}
	}
	if err := s.expand(ctx, c, next, secrets); err != nil {
		return 0, fmt.Errorf("unable to expand volume: %w", err)
	}
	return s.store(ctx, next)
}

// replaceSecrets sets the encrypted secrets of an updated volume, and returns the plain ones. A request without secrets keeps
// those of the volume, and one with an empty map removes them.
func (s *Service) replaceSecrets(ctx context.Context, next *csi.Volume, requested csi.Secrets) (csi.Secrets, error) {
	plain := requested
	if requested == nil {
		var err error
		if plain, err = s.cfg.Secrets.Of(ctx, next); err != nil {
			return nil, err
		}
		if next.Sealed != nil || s.OnlyOurs("the encryption of secrets of CSI volumes") != nil {
			return plain, nil
		}
	}
	sealed, err := s.cfg.Secrets.Seal(ctx, plain)
	next.Secrets, next.Sealed = nil, sealed
	return plain, err
}

// expand sets the requested capacities of an updated volume. If it is smaller than the minimum, the controller and the nodes
// with the volume enlarge it. After an error nothing is stored, so that the same request repeats all steps.
func (s *Service) expand(ctx context.Context, c change, next *csi.Volume, secrets csi.Secrets) error {
	low, high := c.requested.RequestedCapacityMin, c.requested.RequestedCapacityMax
	switch {
	case low == 0 && high == 0, low == next.RequestedCapacityMin && high == next.RequestedCapacityMax:
		return nil
	case high > 0 && high < low:
		return fmt.Errorf("max requested capacity (%d bytes) less than or equal to min (%d bytes)", high, low)
	case high > 0 && high < next.Capacity:
		return fmt.Errorf("max requested capacity (%d bytes) less than or equal to current (%d bytes)", high, next.Capacity)
	}
	next.RequestedCapacityMin, next.RequestedCapacityMax = low, high
	if low <= next.Capacity {
		return nil
	}
	if !able(c.plugin, func(c *nomad.CSIControllerInfo) bool { return c.SupportsExpand }) {
		return errors.New("expand is not implemented by this controller plugin")
	}
	req := &message.ClientCSIControllerExpandVolumeRequest{ExternalVolumeID: next.RemoteID(), Secrets: secrets,
		CapacityRange: &csi.CapacityRange{RequiredBytes: low, LimitBytes: high}, CSIControllerQuery: query(c.plugin.ID)}
	var got message.ClientCSIControllerExpandVolumeResponse
	if err := s.controller(ctx, "ExpandVolume", req, &got); err != nil {
		return err
	}
	rpc.Wrote(ctx)
	if got.CapacityBytes < low {
		return fmt.Errorf("controller expand volume: plugin %q returned the capacity %d, which is less than the requested %d", c.plugin.ID,
			got.CapacityBytes, low)
	}
	next.Capacity = got.CapacityBytes
	if got.NodeExpansionRequired {
		return s.expandOnNodes(ctx, next, req.CapacityRange)
	}
	return nil
}

// expandOnNodes enlarges the file systems on the nodes that use a volume.
func (s *Service) expandOnNodes(ctx context.Context, v *csi.Volume, size *csi.CapacityRange) error {
	var errs []error
	snap := s.Snapshot()
	for _, claims := range []map[string]*csi.Claim{v.WriteClaims, v.ReadClaims} {
		for _, id := range slices.Sorted(maps.Keys(claims)) {
			a := snap.Alloc(nil, id)
			if v.PastClaims[id] != nil || a == nil || a.ClientTerminalStatus() {
				continue
			}
			claim := *claims[id]
			claim.NodeID = a.NodeID // records of old servers do not have it
			req := &message.ClientCSINodeExpandVolumeRequest{PluginID: v.PluginID, VolumeID: v.ID, VolumeNamespace: v.Namespace,
				ExternalID: v.RemoteID(), Capacity: size, Claim: &claim}
			if err := s.cfg.Plugins.Node(ctx, a.NodeID, "ExpandVolume", req, &message.ClientCSINodeExpandVolumeResponse{}); err != nil {
				errs = append(errs, fmt.Errorf("node expand volume of allocation %s on node %s: %w; repeat the command when its cause is mended",
					id, a.NodeID, err))
			}
		}
	}
	return joined(errs)
}
