package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// writeWithin limits a write to the log.
const writeWithin = 30 * time.Second

// attempt takes the remaining steps of one claim, until one fails.
type attempt struct {
	*Watcher
	key        volumeKey
	alloc      string
	pluginless bool   // the plugin does not exist for so long that its steps are skipped
	index      uint64 // of the last log entry
}

// report passes the outcome to Run.
func (a *attempt) report(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outcomes = append(a.outcomes, outcome{key: a.key, alloc: a.alloc, index: a.index, err: err})
	a.woken.Send()
}

// run returns nil when the claim is freed, or does not exist any more.
func (a *attempt) run(ctx context.Context) error {
	for {
		s := a.read()
		if s == nil {
			return nil
		}
		err := a.step(ctx, s)
		switch {
		case err == nil:
			continue
		case errors.Is(err, csi.ErrVolumeNotFound):
			return nil
		case ctx.Err() != nil:
			return apierror.ErrNoLeader // or the server stops
		}
		return a.waits(ctx, s, err)
	}
}

// endedClaim is an ended claim in a snapshot.
type endedClaim struct {
	snap   *state.Snapshot
	volume *csi.Volume
	claim  *csi.Claim
	nodeID string
	node   *nomad.Node // nil if it does not exist
	plugin *csi.Plugin // nil if it does not exist
}

// read returns the claim as it is now, or nil if it does not exist.
func (a *attempt) read() *endedClaim {
	snap := a.cfg.Store().Snapshot()
	v := snap.CSIVolume(nil, a.key.namespace, a.key.id)
	if v == nil {
		return nil
	}
	ended := snap.EndedCSIClaims(v)
	i := slices.IndexFunc(ended, func(c *csi.Claim) bool { return c.AllocationID == a.alloc })
	if i < 0 {
		return nil
	}
	s := &endedClaim{snap: snap, volume: v, claim: ended[i], nodeID: nodeOf(snap, ended[i]), plugin: snap.CSIPlugin(nil, v.PluginID)}
	s.node = snap.Node(nil, s.nodeID)
	return s
}

// nodeOf returns the node of a claim. Claims in old snapshots of Nomad do not name it.
func nodeOf(snap *state.Snapshot, c *csi.Claim) string {
	if c.NodeID != "" {
		return c.NodeID
	}
	if alloc := snap.Alloc(nil, c.AllocationID); alloc != nil {
		return alloc.NodeID
	}
	return ""
}

// step takes one step of the claim.
func (a *attempt) step(ctx context.Context, s *endedClaim) error {
	switch s.claim.State {
	case csi.ClaimUnpublishing:
		if s.volume.PastClaims[a.alloc] == nil {
			return a.write(ctx, s, change{state: csi.ClaimUnpublishing})
		}
		if err := a.detachNode(ctx, s); err != nil {
			return err
		}
		return a.write(ctx, s, change{state: csi.ClaimNodeDetached})
	case csi.ClaimNodeDetached, csi.ClaimControllerDetached:
		return a.detachController(ctx, s)
	}
	return fmt.Errorf("claim of allocation %s on volume %q: unexpected state %q", a.alloc, a.key.id, s.claim.State)
}

// change is what a log entry changes in a claim.
type change struct {
	state csi.ClaimState
	waits string
}

// write writes a log entry.
func (a *attempt) write(ctx context.Context, s *endedClaim, c change) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	index, err := a.cfg.Raft.Apply(ctx, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{
		VolumeID: a.key.id, AllocationID: a.alloc, NodeID: s.nodeID, ExternalNodeID: s.externalNode(), Claim: s.claim.Mode,
		AccessMode: s.claim.AccessMode, AttachmentMode: s.claim.AttachmentMode, State: c.state, Waits: c.waits,
		Timestamp: time.Now().UnixNano(), WriteRequest: message.WriteRequest{Namespace: a.key.namespace}})
	a.index = max(a.index, index)
	if err != nil {
		return fmt.Errorf("record that the claim of allocation %s on volume %q is %s: %w", a.alloc, a.key.id, c.state, err)
	}
	if c.state == csi.ClaimReadyToFree {
		a.cfg.Log.Debug("released claim of a CSI volume", "namespace", a.key.namespace, "volume", a.key.id, "alloc", a.alloc,
			"node", s.nodeID)
	}
	return nil
}

// waits records why the next step has not been done, if the text is new. It returns an error with the text.
func (a *attempt) waits(ctx context.Context, s *endedClaim, reason error) error {
	text := a.printable(ctx, s, reason)
	if now := a.read(); now != nil && now.claim.Waits != text && now.volume.PastClaims[a.alloc] != nil {
		a.cfg.Log.Warn("claim of a CSI volume waits", "namespace", a.key.namespace, "volume", a.key.id, "alloc", a.alloc,
			"node", s.nodeID, "state", now.claim.State, "waits", text)
		if err := a.write(ctx, now, change{now.claim.State, text}); err != nil && ctx.Err() == nil {
			a.cfg.Log.Warn("record what a claim of a CSI volume waits for", "volume", a.key.id, "alloc", a.alloc, "err", err)
		}
	}
	return errors.New(text)
}

// externalNode returns the ID of the node in the storage system, or "" if it is not known any more.
func (s *endedClaim) externalNode() string {
	id := s.claim.ExternalNodeID
	for _, claims := range []map[string]*csi.Claim{s.volume.ReadClaims, s.volume.WriteClaims} {
		for _, c := range claims {
			if id == "" && nodeOf(s.snap, c) == s.nodeID {
				id = c.ExternalNodeID
			}
		}
	}
	if s.node != nil {
		id = cmp.Or(id, reported(s.node.CSINodePlugins[s.volume.PluginID]))
	}
	if s.plugin != nil {
		id = cmp.Or(id, reported(s.plugin.Nodes[s.nodeID]))
	}
	return id
}

// reported returns the ID of a node in the storage system, as its plugin has reported it.
func reported(info *nomad.CSIInfo) string {
	if info == nil || info.NodeInfo == nil {
		return ""
	}
	return info.NodeInfo.ID
}
