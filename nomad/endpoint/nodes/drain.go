package nodes

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/drain"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Limits for the metadata of a drain, which the node keeps.
const (
	maxDrainMeta  = 64       // keys
	maxDrainBytes = 16 << 10 // of keys and values
)

// UpdateDrain starts, changes or ends the drain of a node. A draining node is ineligible.
// nomad/drain moves its allocations.
//
// A node may only start its own drain, when its agent stops, and report it as complete. It then
// stays ineligible. A node cannot change an active drain. Operators may change and end a drain at
// any time, and make the node eligible again.
func (s *Service) UpdateDrain(ctx context.Context, c *rpc.Call,
	req *message.NodeUpdateDrainRequest) (*message.NodeDrainUpdateResponse, error) {
	if req.NodeID == "" {
		return nil, apierror.Errorf(400, "missing node ID for drain update")
	}
	if err := mayUpdateDrain(c, req); err != nil {
		return nil, err
	}
	if err := smallMeta(req.Meta); err != nil {
		return nil, err
	}
	snap := s.Snapshot()
	old := snap.Node(nil, req.NodeID)
	switch {
	case old == nil:
		return nil, apierror.ErrNodeNotFound
	case req.DrainStrategy != nil && old.DrainStrategy != nil && authz.NodeID(c.Identity) != "":
		return unchanged(old), nil // the node leaves, as the active drain requires
	case req.DrainStrategy != nil:
		return s.startDrain(ctx, c, old, req)
	case old.DrainStrategy != nil:
		return s.endDrain(ctx, c, snap, req)
	case !req.MarkEligible:
		return unchanged(old), nil
	}
	update, err := s.UpdateEligibility(ctx, c,
		&message.NodeUpdateEligibilityRequest{NodeID: req.NodeID, Eligibility: nomad.NodeSchedulingEligible})
	if err != nil {
		return nil, err
	}
	return &message.NodeDrainUpdateResponse{NodeModifyIndex: update.NodeModifyIndex, EvalIDs: update.EvalIDs,
		EvalCreateIndex: update.EvalCreateIndex, WriteMeta: update.WriteMeta}, nil
}

// mayUpdateDrain returns an error unless the caller may send the update. A node may only update
// its own drain, even when ACLs are disabled, and never becomes eligible by it.
func mayUpdateDrain(c *rpc.Call, req *message.NodeUpdateDrainRequest) error {
	if authz.NodeID(c.Identity) == "" {
		return c.Access.Need(acl.ToWrite(acl.Nodes))
	}
	c.Access.MarkChecked()
	if req.MarkEligible {
		return apierror.ErrPermissionDenied
	}
	return authz.SameNode(c.Identity, req.NodeID)
}

// smallMeta returns an error if the metadata of a drain exceeds its limits.
func smallMeta(meta map[string]string) error {
	size := 0
	for k, v := range meta {
		size += len(k) + len(v)
	}
	if len(meta) > maxDrainMeta || size > maxDrainBytes {
		return apierror.Errorf(400, "metadata of the drain is too large: %d keys with %d bytes, at most %d keys with %d bytes",
			len(meta), size, maxDrainMeta, maxDrainBytes)
	}
	return nil
}

func unchanged(n *nomad.Node) *message.NodeDrainUpdateResponse {
	out := &message.NodeDrainUpdateResponse{NodeModifyIndex: n.ModifyIndex}
	out.Index = n.ModifyIndex
	return out
}

// startDrain starts a drain, or changes the active one. The deadline counts from now, the start does not change.
func (s *Service) startDrain(ctx context.Context, c *rpc.Call, old *nomad.Node,
	req *message.NodeUpdateDrainRequest) (*message.NodeDrainUpdateResponse, error) {
	now := s.Now().UTC()
	strategy := &nomad.DrainStrategy{DrainSpec: req.DrainStrategy.DrainSpec, StartedAt: now}
	text := "Node drain strategy set"
	if old.DrainStrategy != nil {
		strategy.StartedAt, text = old.DrainStrategy.StartedAt, "Node drain strategy updated"
	}
	if strategy.Deadline > 0 {
		strategy.ForceDeadline = now.Add(strategy.Deadline)
	}
	index, err := s.betweenPlans(ctx, message.NodeUpdateDrainRequestType,
		&message.NodeUpdateDrainRequest{NodeID: req.NodeID, DrainStrategy: strategy,
			NodeEvent: s.event(nomad.NodeEventSubsystemDrain, text), UpdatedAt: now.Unix(), Meta: req.Meta, UpdatedBy: updater(c.Identity)})
	if err != nil {
		return nil, err
	}
	out := &message.NodeDrainUpdateResponse{NodeModifyIndex: index}
	out.Index = index
	return out, nil
}

// updater names the caller in the last drain of a node.
func updater(id *rbac.AuthenticatedIdentity) string {
	switch node := authz.NodeID(id); {
	case node != "":
		return "client:" + node
	case id.Claims != nil && id.Claims.WorkloadIdentityClaims != nil:
		return "alloc:" + id.Claims.WorkloadIdentityClaims.AllocationID
	case id.ACLToken != nil:
		return "token:" + id.ACLToken.AccessorID
	}
	return fmt.Sprintf("%s:%s", id.TLSName, id.RemoteIP)
}

// endDrain ends the current drain of a node.
func (s *Service) endDrain(ctx context.Context, c *rpc.Call, snap *state.Snapshot,
	req *message.NodeUpdateDrainRequest) (*message.NodeDrainUpdateResponse, error) {
	entry := &message.NodeUpdateDrainRequest{NodeID: req.NodeID, MarkEligible: req.MarkEligible, UpdatedAt: s.Now().Unix()}
	text := "Node drain complete"
	if authz.NodeID(c.Identity) == "" {
		text = "Node drain disabled"
		entry.Meta, entry.UpdatedBy = req.Meta, updater(c.Identity)
	} else if !drained(snap, req.NodeID) {
		return nil, apierror.Errorf(400, "the drain of node %s is not complete: it still has allocations", req.NodeID)
	}
	entry.NodeEvent = s.event(nomad.NodeEventSubsystemDrain, text)
	index, err := s.Apply(ctx, message.NodeUpdateDrainRequestType, entry)
	if err != nil {
		return nil, err
	}
	out := &message.NodeDrainUpdateResponse{NodeModifyIndex: index}
	out.Index = index
	if !req.MarkEligible {
		return out, nil
	}
	update := &message.NodeUpdateResponse{}
	if err := s.evaluateNode(ctx, req.NodeID, index, update); err != nil {
		return nil, err
	}
	out.EvalIDs, out.EvalCreateIndex, out.Index = update.EvalIDs, update.EvalCreateIndex, max(index, update.Index)
	return out, nil
}

// drained reports whether the drain of the node has stopped all allocations that it must
// stop.
func drained(snap *state.Snapshot, id string) bool {
	strategy := snap.Node(nil, id).DrainStrategy
	for a := range snap.AllocsByNode(nil, id) {
		if drain.Remains(strategy, a) {
			return false
		}
	}
	return true
}
