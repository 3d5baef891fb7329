package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// detachNode lets the node unmount the volume of the allocation.
func (a *attempt) detachNode(ctx context.Context, s *endedClaim) error {
	switch {
	case s.nodeLost():
		return s.stopping()
	case s.claim.AccessMode == "" && s.claim.AttachmentMode == "":
		return nil
	}
	req := &message.ClientCSINodeDetachVolumeRequest{PluginID: s.volume.PluginID, VolumeID: s.volume.ID,
		VolumeNamespace: s.volume.Namespace, AllocID: a.alloc, NodeID: s.nodeID, ExternalID: s.volume.RemoteID(),
		AttachmentMode: s.claim.AttachmentMode, AccessMode: s.claim.AccessMode, ReadOnly: s.claim.Mode == csi.ClaimRead}
	err := a.cfg.Plugins.Node(ctx, s.nodeID, "DetachVolume", req, &message.ClientCSINodeDetachVolumeResponse{})
	if err == nil || isNotFound(err) {
		return nil
	}
	now := a.read()
	switch {
	case now == nil:
		return nil
	case now.nodeLost(): // meanwhile
		return now.stopping()
	}
	if a.pluginless && now.plugin == nil {
		a.cfg.Log.Warn("the plugin of a CSI volume does not exist: the claim is released, and the volume may stay mounted",
			"namespace", a.key.namespace, "volume", a.key.id, "plugin", s.volume.PluginID, "node", s.nodeID, "alloc", a.alloc, "err", err)
		return nil
	}
	return now.nodeWaits(err)
}

// nodeLost reports whether the node is down or does not exist. One that is disconnected may run the allocation.
func (s *endedClaim) nodeLost() bool { return s.node == nil || s.node.Status == nomad.NodeStatusDown }

// stopping returns what the release waits for while the client of a node that is down may still run the allocation, and stops it
// by itself: its group has stop_on_client_after. It returns nil otherwise.
func (s *endedClaim) stopping() error {
	alloc := s.snap.Alloc(nil, s.claim.AllocationID)
	if s.node == nil || alloc == nil || alloc.Job == nil || alloc.ClientStatus != nomad.AllocClientStatusLost {
		return nil
	}
	within := alloc.Job.TaskGroup(alloc.TaskGroup).StopTime()
	until := time.Unix(0, cmp.Or(s.claim.Since, alloc.ModifyTime)).Add(within)
	if within == 0 || !time.Now().Before(until) {
		return nil
	}
	return fmt.Errorf("node %s is down, and its client may take until %s to stop the allocation (stop_on_client_after): "+
		"the volume is released then", short(s.nodeID), until.UTC().Format(time.RFC3339))
}

// isNotFound reports whether a plugin does not have the volume any more. The error of gRPC is text on the way here.
func isNotFound(err error) bool { return strings.Contains(err.Error(), "code = NotFound") }

// isUnreachable reports whether a call has not reached the node.
func isUnreachable(err error) bool {
	return errors.Is(err, apierror.ErrNoNodeConn) || errors.Is(err, apierror.ErrUnsent) || errors.Is(err, apierror.ErrNoStream)
}

// nodeWaits returns what the node step waits for after an error.
func (s *endedClaim) nodeWaits(err error) error {
	node, plugin := short(s.nodeID), s.volume.PluginID
	if isUnreachable(err) {
		return fmt.Errorf("node %s is %s and not connected to a server: the volume is unmounted when its agent is connected, "+
			"or released without that when the node is down", node, s.node.Status)
	}
	if s.plugin == nil {
		return s.pluginWaits()
	}
	switch info := s.plugin.Nodes[s.nodeID]; {
	case info == nil:
		return fmt.Errorf("plugin %q does not run on node %s, where the volume is mounted: "+
			"run its job there again (nomad plugin status %s): %w", plugin, node, plugin, err)
	case !info.Healthy:
		return fmt.Errorf("plugin %q is unhealthy on node %s, where the volume is mounted: see its allocation %s: %w",
			plugin, node, short(info.AllocID), err)
	}
	return fmt.Errorf("unmount on node %s: %w", node, err)
}

// short returns the part of an ID that commands show.
func short(id string) string { return id[:min(len(id), 8)] }
