package claims

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const (
	// lockWithin limits the wait for another call of the volume, which has a limit too.
	lockWithin = 3 * time.Minute
	// openWithin limits the wait for the root key of the secrets.
	openWithin = 10 * time.Second
	// maxWaits limits the text of a wait, in bytes.
	maxWaits = 512
)

// errSealed means that the secrets of a volume cannot be opened.
var errSealed = errors.New("the secrets of the volume cannot be opened")

// detachController lets the controller detach the volume from the node, and frees the claim. The lock of the volume is held
// from the decision to the log entry. So a claim that another allocation takes meanwhile is attached after the detachment, also
// one on another record of the same volume of the storage system.
func (a *attempt) detachController(ctx context.Context, s *endedClaim) error {
	limited, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	unlock, err := a.cfg.Plugins.Lock(limited, a.key.namespace, a.key.id)
	if err != nil {
		return err
	}
	defer unlock()
	unlockRemote, err := a.cfg.Plugins.Lock(limited, "", s.volume.RemoteKey())
	if err != nil {
		return err
	}
	defer unlockRemote()
	if s = a.read(); s == nil {
		return nil
	}
	needed, err := a.needsController(s)
	if err != nil {
		return err
	}
	if needed {
		if err := a.callController(ctx, s); err != nil {
			return err
		}
	}
	return a.write(ctx, s, change{state: csi.ClaimReadyToFree})
}

// needsController reports whether the controller must detach the volume from the node.
func (a *attempt) needsController(s *endedClaim) (bool, error) {
	switch {
	case s.plugin == nil && !a.pluginless:
		return false, s.pluginWaits()
	case s.plugin == nil:
		a.cfg.Log.Warn("the plugin of a CSI volume does not exist: the claim is released, and the volume may stay attached",
			"namespace", a.key.namespace, "volume", a.key.id, "plugin", s.volume.PluginID, "node", s.nodeID, "alloc", a.alloc)
		return false, nil
	case !s.plugin.Attaches() || s.shared():
		return false, nil
	case s.externalNode() == "":
		a.cfg.Log.Warn("the ID of a node in the storage system is not known: the claim is released, and the volume may stay attached",
			"namespace", a.key.namespace, "volume", a.key.id, "plugin", s.volume.PluginID, "node", s.nodeID, "alloc", a.alloc)
		return false, nil
	}
	return true, nil
}

// shared reports whether the volume must stay attached for another claim of the node: one whose volume may be mounted there.
// The claim may be on another record of the same volume of the storage system.
func (s *endedClaim) shared() bool {
	if s.mounted(s.volume) {
		return true
	}
	for other := range s.snap.CSIDuplicates(s.volume) {
		if s.mounted(other) {
			return true
		}
	}
	return false
}

// mounted reports whether a volume may be mounted on the node for another claim.
func (s *endedClaim) mounted(v *csi.Volume) bool {
	for _, claims := range []map[string]*csi.Claim{v.ReadClaims, v.WriteClaims} {
		for alloc := range claims {
			c := v.ClaimOf(alloc)
			other := v != s.volume || alloc != s.claim.AllocationID
			if other && (c.State == csi.ClaimTaken || c.State == csi.ClaimUnpublishing) && nodeOf(s.snap, c) == s.nodeID {
				return true
			}
		}
	}
	return false
}

// callController calls the controller.
func (a *attempt) callController(ctx context.Context, s *endedClaim) error {
	secrets, err := a.open(ctx, s.volume)
	if err != nil {
		return fmt.Errorf("%w: %w", errSealed, err)
	}
	req := &message.ClientCSIControllerDetachVolumeRequest{VolumeID: s.volume.RemoteID(), ClientCSINodeID: s.externalNode(),
		Secrets: secrets, CSIControllerQuery: message.CSIControllerQuery{PluginID: s.volume.PluginID}}
	err = a.cfg.Plugins.Controller(ctx, "DetachVolume", req, &message.ClientCSIControllerDetachVolumeResponse{})
	if err == nil || isNotFound(err) {
		return nil
	}
	node, plugin := short(s.nodeID), s.volume.PluginID
	if now := a.cfg.Store().Snapshot().CSIPlugin(nil, plugin); now != nil && now.ControllersHealthy == 0 {
		return fmt.Errorf("no controller of plugin %q is healthy, and the volume is attached to node %s: "+
			"run its job again (nomad plugin status %s): %w", plugin, node, plugin, err)
	}
	return fmt.Errorf("detach from node %s: %w", node, err)
}

// open returns the secrets of a volume.
func (a *attempt) open(ctx context.Context, v *csi.Volume) (csi.Secrets, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	return a.cfg.Secrets.Of(ctx, v)
}

// pluginWaits returns what a step waits for whose plugin does not exist.
func (s *endedClaim) pluginWaits() error {
	return fmt.Errorf("plugin %q does not exist any more: run its job again, so that the volume is unmounted and detached from node %s; "+
		"otherwise the claim is released without it after a while (server.csi_volume_claim_gc_threshold)",
		s.volume.PluginID, short(s.nodeID))
}

// printable returns the text of a wait with limited length, without secrets and mount flags: a plugin may repeat those of an
// earlier call. If the secrets cannot be opened, the text of the plugin is left out.
func (a *attempt) printable(ctx context.Context, s *endedClaim, reason error) string {
	text := reason.Error()
	secrets, err := a.open(ctx, s.volume)
	if err != nil && !errors.Is(reason, errSealed) {
		text = fmt.Sprintf("a step on node %s failed, and its error is not shown because it may contain secrets: %v: %v", short(s.nodeID),
			errSealed, err)
	}
	var flags []string
	if s.volume.MountOptions != nil {
		flags = s.volume.MountOptions.MountFlags
	}
	return untrusted.Line(csi.Hide(text, secrets, flags), maxWaits)
}
