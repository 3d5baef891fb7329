package nodes

import (
	"context"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// UpdateDrain ends the drain of a node. A request that starts a drain fails with 501, because
// drains are not implemented yet.
//
// A node may only report its own drain as complete. It then stays ineligible. Operators may end a
// drain at any time and make the node eligible again.
func (s *Service) UpdateDrain(ctx context.Context, c *rpc.Call, req *message.NodeUpdateDrainRequest) (*message.NodeDrainUpdateResponse, error) {
	if req.NodeID == "" {
		return nil, nomad.Errorf(400, "missing node ID for drain update")
	}
	if err := mayUpdateDrain(c, req); err != nil {
		return nil, err
	}
	if req.DrainStrategy != nil {
		return nil, handler.NotImplemented("draining of nodes")
	}
	snap := s.Snapshot()
	old := snap.Node(nil, req.NodeID)
	switch {
	case old == nil:
		return nil, nomad.ErrNodeNotFound
	case old.DrainStrategy != nil:
		return s.endDrain(ctx, c, snap, req)
	case !req.MarkEligible:
		out := &message.NodeDrainUpdateResponse{NodeModifyIndex: old.ModifyIndex}
		out.Index = old.ModifyIndex
		return out, nil
	}
	update, err := s.UpdateEligibility(ctx, c, &message.NodeUpdateEligibilityRequest{NodeID: req.NodeID, Eligibility: nomad.NodeSchedulingEligible})
	if err != nil {
		return nil, err
	}
	return &message.NodeDrainUpdateResponse{NodeModifyIndex: update.NodeModifyIndex, EvalIDs: update.EvalIDs,
		EvalCreateIndex: update.EvalCreateIndex, WriteMeta: update.WriteMeta}, nil
}

// mayUpdateDrain returns an error unless the caller may send the update. A node may only end
// its own drain, even when ACLs are disabled.
func mayUpdateDrain(c *rpc.Call, req *message.NodeUpdateDrainRequest) error {
	if authz.NodeID(c.Identity) == "" {
		return c.Access.Need(acl.ToWrite(acl.Nodes))
	}
	c.Access.MarkChecked()
	if req.DrainStrategy != nil || req.MarkEligible {
		return nomad.ErrPermissionDenied
	}
	return authz.SameNode(c.Identity, req.NodeID)
}

// endDrain ends the current drain of a node.
func (s *Service) endDrain(ctx context.Context, c *rpc.Call, snap *state.Snapshot, req *message.NodeUpdateDrainRequest) (*message.NodeDrainUpdateResponse, error) {
	entry := &message.NodeUpdateDrainRequest{NodeID: req.NodeID, MarkEligible: req.MarkEligible, UpdatedAt: s.Now().Unix()}
	text := "Node drain complete"
	if authz.NodeID(c.Identity) == "" {
		text = "Node drain strategy unset"
		entry.Meta = req.Meta
		if t := c.Identity.ACLToken; t != nil {
			entry.UpdatedBy = t.AccessorID
		}
	} else if !drained(snap, req.NodeID) {
		return nil, nomad.Errorf(400, "the drain of node %s is not complete: it still has allocations", req.NodeID)
	}
	entry.NodeEvent = s.event(nomad.NodeEventSubsystemDrain, text)
	index, err := s.Apply(ctx, nomad.NodeUpdateDrainRequestType, entry)
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
	ignoreSystem := snap.Node(nil, id).DrainStrategy.IgnoreSystemJobs
	for a := range snap.AllocsByNode(nil, id) {
		system := a.Job != nil && (a.Job.Type == nomad.JobTypeSystem || a.Job.Type == nomad.JobTypeSysBatch)
		if !a.ClientTerminalStatus() && !(system && ignoreSystem) {
			return false
		}
	}
	return true
}
