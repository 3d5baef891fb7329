package csivolumes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// releaseWithin limits the wait of a node for a release, which continues without the node.
const releaseWithin = 10 * time.Second

// Unpublish releases claims. A node ends the claim of one of its allocations. Others make the next attempt to release claims of
// ended allocations: that of one allocation, or all of a node. The claims of running allocations remain. With the mode ClaimGC,
// the attempts for all ended claims of the volume begin, and the reply does not wait for them.
func (s *Service) Unpublish(ctx context.Context, c *rpc.Call,
	req *message.CSIVolumeUnpublishRequest) (*message.CSIVolumeUnpublishResponse, error) {
	switch {
	case req.VolumeID == "":
		return nil, apierror.Errorf(400, "missing volume ID")
	case req.Claim == nil:
		return nil, apierror.Errorf(400, "missing claim")
	}
	snap, namespace := s.Snapshot(), handler.NamespaceOf(req.Namespace)
	v := snap.CSIVolume(nil, namespace, req.VolumeID)
	out := &message.CSIVolumeUnpublishResponse{}
	var err error
	if node := callingNode(snap, c, req); node != "" {
		out.Index, err = s.unpublished(ctx, node, v, req.Claim)
		return out, err
	}
	if v == nil {
		return nil, fmt.Errorf("no such volume: %s", req.VolumeID)
	}
	if req.Claim.Mode == csi.ClaimGC {
		out.Index, err = s.retry(ctx, v)
		return out, err
	}
	err = s.detach(ctx, snap, v, req.Claim)
	out.Index = s.Snapshot().TableIndex(state.TableCSIVolumes)
	return out, err
}

// callingNode returns the ID of the node that makes the call, or "". Without ACLs, secret IDs are not authenticated for methods
// that operators use too, and nodes of other builds have nothing else.
func callingNode(snap *state.Snapshot, c *rpc.Call, req *message.CSIVolumeUnpublishRequest) string {
	if id := authz.NodeID(c.Identity); id != "" || !c.Access.Disabled || !nomad.IsUUID(req.AuthToken) {
		return id
	}
	if n := snap.NodeBySecret(nil, req.AuthToken); n != nil {
		return n.ID
	}
	return ""
}

// nodeOf returns the node of a claim. Claims in snapshots of old servers do not name it.
func nodeOf(snap *state.Snapshot, c *csi.Claim) string {
	if a := snap.Alloc(nil, c.AllocationID); c.NodeID == "" && a != nil {
		return a.NodeID
	}
	return c.NodeID
}

// unpublished ends the claim of an allocation on the calling node. A volume or claim that does not exist any more is released
// already. The node need not repeat the call when the claim cannot be freed at once: the leader continues.
func (s *Service) unpublished(ctx context.Context, node string, v *csi.Volume, claim *csi.Claim) (uint64, error) {
	if claim.AllocationID == "" { // a node may end the claims of its own allocations only, not all of a node
		return 0, apierror.Errorf(400, "%v", apierror.ErrMissingAllocID)
	}
	if v == nil {
		return 0, nil
	}
	held := v.ClaimOf(claim.AllocationID)
	if held == nil {
		return 0, nil
	}
	if nodeOf(s.Snapshot(), held) != node {
		return 0, apierror.ErrPermissionDenied
	}
	index, err := s.end(ctx, v, held, claim.State)
	if err != nil {
		return 0, err
	}
	limited, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	if err := s.cfg.Releases.Release(limited, v.Namespace, v.ID, claim.AllocationID); err != nil {
		s.Log.Debug("claim of a CSI volume is not released yet", "volume", v.ID, "alloc", claim.AllocationID, "err", err)
	}
	return index, nil
}

// end writes to the log that a claim has ended, and that its node has unmounted the volume if the node reports that.
func (s *Service) end(ctx context.Context, v *csi.Volume, held *csi.Claim, reported csi.ClaimState) (index uint64, err error) {
	state := held.State
	for _, by := range []csi.ClaimEvent{csi.EventEnd, csi.EventNodeDetach} {
		next, err := state.Next(by)
		if err != nil || by == csi.EventNodeDetach && reported != csi.ClaimNodeDetached {
			continue // an earlier call has recorded this step, or it is still to be done
		}
		state = next
		index, err = s.Apply(ctx, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: v.ID,
			AllocationID: held.AllocationID, NodeID: held.NodeID, ExternalNodeID: held.ExternalNodeID, Claim: held.Mode,
			AccessMode: held.AccessMode, AttachmentMode: held.AttachmentMode, State: state, Timestamp: s.UnixNow(),
			WriteRequest: message.WriteRequest{Region: s.Region, Namespace: v.Namespace}})
		if err != nil {
			return 0, err
		}
	}
	return index, nil
}

// retry lets the leader retry the releases of a volume at once that wait, without waiting for them. Package gc requests it.
func (s *Service) retry(ctx context.Context, v *csi.Volume) (uint64, error) {
	return s.Apply(ctx, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: v.ID, Claim: csi.ClaimGC,
		Timestamp: s.UnixNow(), WriteRequest: message.WriteRequest{Region: s.Region, Namespace: v.Namespace}})
}

// detach makes the next attempt to release ended claims: that of the allocation of the request, or all of its node.
func (s *Service) detach(ctx context.Context, snap *state.Snapshot, v *csi.Volume, of *csi.Claim) error {
	if of.AllocationID == "" && of.NodeID == "" {
		return apierror.Errorf(400, "detach requires node ID")
	}
	meant := func(c *csi.Claim) bool {
		return (of.AllocationID == "" || c.AllocationID == of.AllocationID) && (of.NodeID == "" || nodeOf(snap, c) == of.NodeID)
	}
	var ended []string
	for _, c := range snap.EndedCSIClaims(v) {
		if meant(c) {
			ended = append(ended, c.AllocationID)
		}
	}
	if len(ended) == 0 {
		return stillUsed(v, meant)
	}
	var errs []error
	for _, alloc := range ended {
		if err := s.cfg.Releases.Release(ctx, v.Namespace, v.ID, alloc); err != nil {
			errs = append(errs, fmt.Errorf("claim of allocation %s: %w", alloc, err))
		}
	}
	return joined(errs)
}

// stillUsed is the error about claims of allocations that have not ended; nil without any.
func stillUsed(v *csi.Volume, meant func(*csi.Claim) bool) error {
	var allocs []string
	for _, claims := range []map[string]*csi.Claim{v.WriteClaims, v.ReadClaims} {
		for id, c := range claims {
			if meant(c) {
				allocs = append(allocs, id)
			}
		}
	}
	if len(allocs) == 0 {
		return nil
	}
	slices.Sort(allocs)
	return fmt.Errorf("%w: %s: these allocations have not ended and keep their claims, stop them first: %s", csi.ErrVolumeInUse, v.ID,
		strings.Join(allocs, ", "))
}
