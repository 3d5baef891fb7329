package nodes

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Deregister purges a node and creates evaluations for its jobs.
func (s *Service) Deregister(ctx context.Context, c *rpc.Call, req *message.NodeDeregisterRequest) (*message.NodeUpdateResponse, error) {
	if req.NodeID == "" {
		return nil, apierror.Errorf(400, "missing node ID for client deregistration")
	}
	return s.deregister(ctx, []string{req.NodeID}, message.NodeDeregisterRequestType,
		&message.NodeDeregisterRequest{NodeID: req.NodeID, PurgedAt: s.Now().Unix()})
}

// BatchDeregister removes nodes with one log entry and creates evaluations for their jobs. From
// the leader it is a garbage collection, otherwise a purge.
func (s *Service) BatchDeregister(ctx context.Context, c *rpc.Call,
	req *message.NodeBatchDeregisterRequest) (*message.NodeUpdateResponse, error) {
	if len(req.NodeIDs) == 0 {
		return nil, apierror.Errorf(400, "missing node IDs for client deregistration")
	}
	entry := &message.NodeBatchDeregisterRequest{NodeIDs: req.NodeIDs}
	if !authz.IsLeader(c.Identity) { // the leader's garbage collection is not a purge
		entry.PurgedAt = s.Now().Unix()
	}
	return s.deregister(ctx, req.NodeIDs, message.NodeBatchDeregisterRequestType, entry)
}

// deregister deletes nodes and creates evaluations for their jobs.
func (s *Service) deregister(ctx context.Context, ids []string, t message.CommandType, entry any) (*message.NodeUpdateResponse, error) {
	snap := s.Snapshot()
	var evals []*nomad.Evaluation
	for _, id := range ids {
		if snap.Node(nil, id) == nil {
			return nil, apierror.ErrNodeNotFound
		}
		evals = append(evals, s.evalsFor(snap, id, 0)...)
	}
	index, err := s.Apply(ctx, t, entry)
	if err != nil {
		return nil, err
	}
	out := &message.NodeUpdateResponse{NodeModifyIndex: index}
	out.Index = index
	for _, id := range ids {
		s.cfg.Heartbeats.Clear(id)
		s.calls.forget(id)
	}
	for _, e := range evals {
		e.NodeModifyIndex = index
		out.EvalIDs = append(out.EvalIDs, e.ID)
	}
	if len(evals) > 0 {
		if out.EvalCreateIndex, err = s.UpsertEvals(ctx, evals...); err != nil {
			return nil, err
		}
		out.Index = out.EvalCreateIndex
	}
	return out, nil
}

// UpdateEligibility sets whether a node is eligible for new allocations. Nodes must not call it.
func (s *Service) UpdateEligibility(ctx context.Context, c *rpc.Call,
	req *message.NodeUpdateEligibilityRequest) (*message.NodeEligibilityUpdateResponse, error) {
	if authz.NodeID(c.Identity) != "" {
		return nil, apierror.ErrPermissionDenied // also when ACLs are disabled
	}
	switch {
	case req.NodeID == "":
		return nil, apierror.Errorf(400, "missing node ID for setting scheduling eligibility")
	case req.Eligibility != nomad.NodeSchedulingEligible && req.Eligibility != nomad.NodeSchedulingIneligible:
		return nil, apierror.Errorf(400, "invalid scheduling eligibility %q", req.Eligibility)
	}
	old := s.Snapshot().Node(nil, req.NodeID)
	if old == nil {
		return nil, apierror.ErrNodeNotFound
	}
	if old.DrainStrategy != nil && req.Eligibility == nomad.NodeSchedulingEligible {
		return nil, apierror.Errorf(400, "can not set node's scheduling eligibility to eligible while it is draining")
	}
	out := &message.NodeEligibilityUpdateResponse{NodeModifyIndex: old.ModifyIndex}
	if old.SchedulingEligibility == req.Eligibility {
		out.Index = old.ModifyIndex
		return out, nil
	}
	index, err := s.betweenPlans(ctx, message.NodeUpdateEligibilityRequestType, &message.NodeUpdateEligibilityRequest{
		NodeID: req.NodeID, Eligibility: req.Eligibility, UpdatedAt: s.Now().Unix(),
		NodeEvent: s.event(nomad.NodeEventSubsystemCluster, "Node marked as "+eligibilityWord(req.Eligibility)+" for scheduling")})
	if err != nil {
		return nil, err
	}
	out.NodeModifyIndex, out.Index = index, index
	if req.Eligibility == nomad.NodeSchedulingEligible {
		update := &message.NodeUpdateResponse{}
		if err := s.evaluateNode(ctx, req.NodeID, index, update); err != nil {
			return nil, err
		}
		out.EvalIDs, out.EvalCreateIndex, out.Index = update.EvalIDs, update.EvalCreateIndex, max(index, update.Index)
	}
	return out, nil
}

func eligibilityWord(e string) string {
	if e == nomad.NodeSchedulingEligible {
		return "eligible"
	}
	return "ineligible"
}

func (s *Service) event(subsystem, message string) *nomad.NodeEvent {
	return &nomad.NodeEvent{Message: message, Subsystem: subsystem, Timestamp: s.Now().UTC()}
}

// Evaluate creates an evaluation for each job with an allocation on the node, and for each system
// job that could be placed on it.
func (s *Service) Evaluate(ctx context.Context, _ *rpc.Call, req *message.NodeEvaluateRequest) (*message.NodeUpdateResponse, error) {
	if req.NodeID == "" {
		return nil, apierror.Errorf(400, "missing node ID for evaluation")
	}
	node := s.Snapshot().Node(nil, req.NodeID)
	if node == nil {
		return nil, apierror.ErrNodeNotFound
	}
	out := &message.NodeUpdateResponse{NodeModifyIndex: node.ModifyIndex}
	out.Index = node.ModifyIndex
	return out, s.evaluateNode(ctx, req.NodeID, node.ModifyIndex, out)
}

// EmitEvents stores events that the calling node reports about itself.
func (s *Service) EmitEvents(ctx context.Context, c *rpc.Call,
	req *message.EmitNodeEventsRequest) (*message.EmitNodeEventsResponse, error) {
	if len(req.NodeEvents) == 0 {
		return nil, apierror.Errorf(400, "no node events given")
	}
	for id, events := range req.NodeEvents {
		if err := authz.SameNode(c.Identity, id); err != nil {
			return nil, err
		}
		if len(events) == 0 {
			return nil, apierror.Errorf(400, "no node events given for node %q", id)
		}
		if err := ownEvents(events...); err != nil {
			return nil, err
		}
		req.NodeEvents[id] = events[max(0, len(events)-nomad.MaxRetainedNodeEvents):] // older ones would not be kept
	}
	index, err := s.Apply(ctx, message.UpsertNodeEventsType, &message.EmitNodeEventsRequest{NodeEvents: req.NodeEvents})
	if err != nil {
		return nil, err
	}
	out := &message.EmitNodeEventsResponse{}
	out.Index = index
	return out, nil
}

// Limits of an event of a node, in bytes. The servers keep it in their state.
const (
	maxEventMessage = 4 << 10 // a longer one is shortened
	maxEventDetails = 8 << 10 // of the subsystem, and of all keys and values
)

// ownEvents rejects events of a node that name a subsystem of the servers, and those that are too large. Operators rely on
// the former to come from the servers. It shortens messages, since they contain errors of any length.
func ownEvents(events ...*nomad.NodeEvent) error {
	for _, e := range events {
		if e == nil {
			continue
		}
		if slices.Contains(serverSubsystems, e.Subsystem) {
			return apierror.Errorf(400, "a node cannot emit events with the subsystem %q", e.Subsystem)
		}
		size := len(e.Subsystem)
		for key, value := range e.Details {
			size += len(key) + len(value)
		}
		if size > maxEventDetails {
			return apierror.Errorf(400, "the subsystem and the details of a node event have %d bytes: the limit is %d", size, maxEventDetails)
		}
		e.Message = untrusted.Shorten(e.Message, maxEventMessage)
	}
	return nil
}

var serverSubsystems = []string{nomad.NodeEventSubsystemCluster, nomad.NodeEventSubsystemDrain,
	nomad.NodeEventSubsystemHeartbeat, nomad.NodeEventSubsystemScheduler}

// UpdateAlloc updates the client status of allocations. Those that are not placed on the calling
// node are not updated: the others are, and the error is a *apierror.RefusedAllocs.
func (s *Service) UpdateAlloc(ctx context.Context, c *rpc.Call, req *message.AllocUpdateRequest) (*message.GenericResponse, error) {
	if len(req.Alloc) == 0 {
		return nil, apierror.Errorf(400, "must update at least one allocation")
	}
	if len(req.Evals) > 0 {
		return nil, apierror.Errorf(400, "allocation updates must not contain evaluations")
	}
	if err := s.calls.next(authz.NodeID(c.Identity), req.Session, req.Number); err != nil {
		return nil, err
	}
	snap, err := s.snapshotWith(ctx, req.Alloc)
	if err != nil {
		return nil, err
	}
	own, refused, err := ownUpdates(snap, c.Identity, req.Alloc)
	if err != nil {
		return nil, err
	}
	if err := reporting(snap, authz.NodeID(c.Identity)); err != nil {
		return nil, err
	}
	out := &message.GenericResponse{}
	if len(own) > 0 {
		if out.Index, err = s.applyUpdates(ctx, snap, own); err != nil {
			return nil, err
		}
	}
	if len(refused) > 0 {
		return nil, &apierror.RefusedAllocs{IDs: refused}
	}
	return out, nil
}

// snapshotWith returns a snapshot that has the allocations of the updates, except for garbage-collected ones. A leader
// that was replaced and has not noticed lacks those that its successor placed, so leadership is confirmed if one is
// unknown. Otherwise their updates would be acknowledged and lost.
func (s *Service) snapshotWith(ctx context.Context, updates []*nomad.Allocation) (*state.Snapshot, error) {
	snap := s.Snapshot()
	unknown := func(update *nomad.Allocation) bool { return update != nil && snap.Alloc(nil, update.ID) == nil }
	if !slices.ContainsFunc(updates, unknown) {
		return snap, nil
	}
	if err := s.Cluster.Confirm(ctx); err != nil {
		return nil, err
	}
	return s.Snapshot(), nil
}

// allocUpdate is an update of a stored allocation.
type allocUpdate struct{ known, update *nomad.Allocation }

// ownUpdates returns the updates of allocations that are placed on the calling node, and the IDs
// of those on other nodes. It skips allocations that have been garbage-collected, and updates that arrive late.
func ownUpdates(snap *state.Snapshot, caller *rbac.AuthenticatedIdentity,
	updates []*nomad.Allocation) (own []allocUpdate, refused []string, err error) {
	for _, update := range updates {
		if update == nil || !nomad.IsUUID(update.ID) {
			return nil, nil, apierror.Errorf(400, "an update has no allocation ID")
		}
		known := snap.Alloc(nil, update.ID)
		switch {
		case authz.SameNode(caller, update.NodeID) != nil, known != nil && authz.OwnAlloc(caller, known) != nil:
			refused = append(refused, update.ID)
		case known != nil && !late(known, update):
			own = append(own, allocUpdate{known, update})
		}
	}
	return own, refused, nil
}

// late reports whether an update is older than the stored status: an allocation that has ended on its node does not run
// again. It covers what callNumbers does not: a leader that has just begun, and agents that do not number their calls.
func late(known, update *nomad.Allocation) bool {
	ended := known.ClientStatus == nomad.AllocClientStatusComplete || known.ClientStatus == nomad.AllocClientStatusFailed
	return ended && !update.ClientTerminalStatus()
}

// applyUpdates writes the updates with the evaluations that they require.
func (s *Service) applyUpdates(ctx context.Context, snap *state.Snapshot, updates []allocUpdate) (index uint64, err error) {
	now := s.UnixNow()
	entry := &message.AllocUpdateRequest{Alloc: make([]*nomad.Allocation, 0, len(updates))}
	retry := map[nomad.NamespacedID]*nomad.Evaluation{}
	for _, u := range updates {
		clone := *u.update
		clone.ModifyTime = now
		if id := clone.DeploymentID; id != "" && id != u.known.DeploymentID {
			clone.DeploymentStatus = nil // the health is of an earlier deployment
		}
		entry.Alloc = append(entry.Alloc, &clone)
		if e := s.followUp(snap, u.known, u.update); e != nil {
			retry[u.known.JobNamespacedID()] = e
		}
	}
	entry.Evals = sortedEvals(retry)
	return s.Apply(ctx, message.AllocClientUpdateRequestType, entry)
}

func sortedEvals(evals map[nomad.NamespacedID]*nomad.Evaluation) []*nomad.Evaluation {
	return slices.SortedFunc(maps.Values(evals), func(a, b *nomad.Evaluation) int {
		return page.Cursor{Namespace: a.Namespace, ID: a.JobID}.Compare(page.Cursor{Namespace: b.Namespace, ID: b.JobID})
	})
}

// reporting rejects a node that is down or disconnected. It must send a heartbeat before it
// may update its allocations.
func reporting(snap *state.Snapshot, id string) error {
	node := snap.Node(nil, id)
	switch {
	case node == nil:
		return apierror.ErrNodeNotFound
	case node.Status == nomad.NodeStatusDown, node.Status == nomad.NodeStatusDisconnected:
		return fmt.Errorf("node %s is not allowed to update allocs while in status %s", id, node.Status)
	}
	return nil
}

// awaitsReplacement reports whether an update ends an allocation that the scheduler replaces after a delay. One of a
// system job is replaced at the next evaluation of the job.
func awaitsReplacement(job *nomad.Job, update *nomad.Allocation) bool {
	switch nomad.EndingOf(job.Type, update.ClientStatus) {
	case nomad.EndByPolicy, nomad.EndDelayed:
		return true
	}
	return false
}

// followUp returns the evaluation that an update requires: to replace an allocation that ended,
// or to reconcile a reconnected one. It is nil if none is needed.
func (s *Service) followUp(snap *state.Snapshot, known, update *nomad.Allocation) *nomad.Evaluation {
	job := snap.Job(nil, known.Namespace, known.JobID)
	if job.Stopped() || job.Type == nomad.JobTypeSysBatch {
		return nil
	}
	trigger := ""
	switch {
	case awaitsReplacement(job, update) && !known.TerminalStatus() && known.FollowupEvalID == "":
		trigger = nomad.EvalTriggerRetryFailedAlloc
	case known.ClientStatus == nomad.AllocClientStatusUnknown && update.ClientStatus != nomad.AllocClientStatusUnknown:
		trigger = nomad.EvalTriggerReconnect
	default:
		return nil
	}
	e := s.JobEval(job, 0, trigger)
	if e == nil {
		return nil
	}
	e.JobModifyIndex = 0
	e.CreateTime, e.ModifyTime = s.UnixNow(), s.UnixNow()
	return e
}
