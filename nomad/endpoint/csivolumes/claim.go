package csivolumes

import (
	"cmp"
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Claim claims a volume for an allocation on the calling node, and attaches it there. It may be repeated. If the volume cannot be
// attached, the allocation keeps the claim.
func (s *Service) Claim(ctx context.Context, c *rpc.Call, req *message.CSIVolumeClaimRequest) (*message.CSIVolumeClaimResponse, error) {
	namespace := handler.NamespaceOf(req.Namespace)
	a, err := claimant(s.Snapshot(), c, req)
	if err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx, namespace, req.VolumeID)
	if err != nil {
		return nil, busy(err)
	}
	defer unlock()
	ctx = context.WithoutCancel(ctx)
	snap := s.Snapshot()
	v := snap.CSIVolume(nil, namespace, req.VolumeID)
	if v == nil {
		return nil, fmt.Errorf("%w: %s", csi.ErrVolumeNotFound, req.VolumeID)
	}
	unlockRemote, err := s.lockRemote(ctx, v)
	if err != nil {
		return nil, busy(err)
	}
	defer unlockRemote()
	entry := &message.CSIVolumeClaimRequest{VolumeID: v.ID, AllocationID: a.ID, NodeID: a.NodeID,
		ExternalNodeID: externalNode(snap, v, a.NodeID),
		Claim:          req.Claim, AccessMode: req.AccessMode, AttachmentMode: req.AttachmentMode, State: csi.ClaimTaken, Timestamp: s.UnixNow(),
		WriteRequest: message.WriteRequest{Region: s.Region, Namespace: namespace}}
	out := &message.CSIVolumeClaimResponse{}
	if out.Index, err = s.Apply(ctx, message.CSIVolumeClaimRequestType, entry); err != nil {
		return nil, err
	}
	out.Volume, out.PublishContext, err = s.attach(ctx, entry)
	return out, err
}

// busy is the error of a claim that waited too long for another operation on the volume. Nodes repeat the claim.
func busy(err error) error { return fmt.Errorf("%w: %w", csi.ErrRetryable, err) }

// claimant returns the allocation of a claim. It must run on the calling node, and its job must request the volume in the same
// modes: a node gets the secrets of no other volumes. The allocation must not be one that the servers stop.
func claimant(snap *state.Snapshot, c *rpc.Call, req *message.CSIVolumeClaimRequest) (*nomad.Allocation, error) {
	switch {
	case req.VolumeID == "":
		return nil, apierror.Errorf(400, "missing volume ID")
	case req.AllocationID == "":
		return nil, apierror.ErrMissingAllocID
	}
	a := snap.Alloc(nil, req.AllocationID)
	if a == nil {
		return nil, fmt.Errorf("alloc %q failed to claim volume %q: allocation missing: %s", req.AllocationID, req.VolumeID, req.AllocationID)
	}
	if err := authz.OwnAlloc(c.Identity, a); err != nil {
		return nil, err
	}
	if a.ServerTerminalStatus() { // lost with its node, which returned: the claim is for its replacement
		return nil, fmt.Errorf("alloc %q failed to claim volume %q: the allocation is to be stopped", a.ID, req.VolumeID)
	}
	if a.Namespace == handler.NamespaceOf(req.Namespace) {
		for _, r := range a.CSIRequests(a.Job) {
			mode := csi.ClaimWrite
			if r.ReadOnly {
				mode = csi.ClaimRead
			}
			if r.SourceFor(a.Name) == req.VolumeID && mode == req.Claim && r.AccessMode == req.AccessMode &&
				r.AttachmentMode == req.AttachmentMode {
				return a, nil
			}
		}
	}
	return nil, apierror.Denied("group %q of job %q does not request volume %q in this mode", a.TaskGroup, a.JobID, req.VolumeID)
}

// externalNode returns the ID of a node in the storage system, as its plugin reports it or as an earlier claim has it.
func externalNode(snap *state.Snapshot, v *csi.Volume, node string) string {
	if n := snap.Node(nil, node); n != nil {
		if info := n.CSINodePlugins[v.PluginID]; info != nil && info.NodeInfo != nil && info.NodeInfo.ID != "" {
			return info.NodeInfo.ID
		}
	}
	id := ""
	for _, claims := range []map[string]*csi.Claim{v.WriteClaims, v.ReadClaims} {
		for _, c := range claims {
			if c.NodeID == node {
				id = cmp.Or(id, c.ExternalNodeID)
			}
		}
	}
	return id
}

// attach attaches a claimed volume to its node. It returns the volume with its secrets, and what the node needs to mount it.
func (s *Service) attach(ctx context.Context, claim *message.CSIVolumeClaimRequest) (*csi.Volume, map[string]string, error) {
	snap := s.Snapshot()
	v := snap.CSIVolume(nil, claim.Namespace, claim.VolumeID)
	if v == nil {
		return nil, nil, fmt.Errorf("%w: %s", csi.ErrVolumeNotFound, claim.VolumeID)
	}
	p := snap.CSIPlugin(nil, v.PluginID)
	if p == nil {
		return nil, nil, fmt.Errorf("alloc %q failed to claim volume %q: %w", claim.AllocationID, v.ID, csi.ErrUnschedulable)
	}
	secrets, err := s.cfg.Secrets.Of(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	shown := snap.ShownCSIVolume(nil, v)
	shown.Secrets, shown.Sealed = secrets, nil
	shown.ReadClaims, shown.WriteClaims, shown.PastClaims = nil, nil, nil
	switch {
	case !p.Attaches():
		return shown, nil, nil
	case p.ControllersHealthy == 0:
		return nil, nil, fmt.Errorf("controller publish: %w: no controller of plugin %q is healthy", csi.ErrRetryable, p.ID)
	}
	req := &message.ClientCSIControllerAttachVolumeRequest{VolumeID: v.RemoteID(), ClientCSINodeID: claim.ExternalNodeID,
		AttachmentMode: claim.AttachmentMode, AccessMode: claim.AccessMode, ReadOnly: claim.Claim == csi.ClaimRead, Secrets: secrets,
		VolumeContext: v.Context, CSIControllerQuery: query(p.ID)}
	if o := v.MountOptions; o != nil {
		req.MountOptions = &message.CSIVolumeMountOptions{Filesystem: o.FSType, MountFlags: o.MountFlags}
	}
	var got message.ClientCSIControllerAttachVolumeResponse
	if err := s.controller(ctx, "AttachVolume", req, &got); err != nil {
		return nil, nil, fmt.Errorf("controller publish: %w", err)
	}
	return shown, got.PublishContext, nil
}
