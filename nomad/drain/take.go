package drain

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// maxEntry is the maximum number of allocations or nodes in one log entry.
const maxEntry = 512

// take writes a step: first the marks, then the completions. After a failure between them, the next
// step writes the rest.
func (d *Drainer) take(ctx context.Context, snap *state.Snapshot, s *step, now time.Time) error {
	for part := range slices.Chunk(s.mark, maxEntry) {
		if _, err := d.cfg.Raft.Apply(ctx, message.AllocUpdateDesiredTransitionRequestType, marks(snap, part, now)); err != nil {
			return fmt.Errorf("mark %d allocations for migration: %w", len(part), err)
		}
		d.cfg.Log.Debug("marked allocations of draining nodes for migration", "allocs", len(part))
	}
	for part := range slices.Chunk(s.done, maxEntry) {
		if _, err := d.cfg.Raft.Apply(ctx, message.BatchNodeUpdateDrainRequestType, completions(part, now)); err != nil {
			return fmt.Errorf("complete %d drains: %w", len(part), err)
		}
		for _, c := range part {
			d.cfg.Log.Info("drain complete", "node", c.node, "deadline_reached", c.deadline)
		}
	}
	return nil
}

// marks returns the log entry that marks allocations, with one evaluation for each of their jobs.
func marks(snap *state.Snapshot, allocs []*nomad.Allocation, now time.Time) *message.AllocUpdateDesiredTransitionRequest {
	yes := true
	req := &message.AllocUpdateDesiredTransitionRequest{Allocs: make(map[string]*nomad.DesiredTransition, len(allocs))}
	var last nomad.NamespacedID
	for _, a := range allocs {
		req.Allocs[a.ID] = &nomad.DesiredTransition{Migrate: &yes}
		if id := a.JobNamespacedID(); id != last { // allocs are sorted by job
			last = id
			if e := newEval(snap, a, now); e != nil {
				req.Evals = append(req.Evals, e)
			}
		}
	}
	return req
}

// newEval returns an evaluation of the allocation's job, or nil if the job is unknown.
func newEval(snap *state.Snapshot, a *nomad.Allocation, now time.Time) *nomad.Evaluation {
	job := snap.Job(nil, a.Namespace, a.JobID)
	if job == nil {
		job = a.Job
	}
	if job == nil {
		return nil
	}
	e := nomad.NewEval(job, nomad.EvalTriggerNodeDrain, now)
	e.JobModifyIndex = job.ModifyIndex
	return e
}

// completions returns the log entry that ends drains. The nodes stay ineligible.
func completions(all []completion, now time.Time) *message.BatchNodeUpdateDrainRequest {
	req := &message.BatchNodeUpdateDrainRequest{Updates: map[string]*nomad.DrainUpdate{},
		NodeEvents: map[string]*nomad.NodeEvent{}, UpdatedAt: now.Unix()}
	for _, c := range all {
		event := &nomad.NodeEvent{Message: "Node drain complete", Subsystem: nomad.NodeEventSubsystemDrain, Timestamp: now.UTC()}
		if c.deadline {
			event.Details = map[string]string{"deadline_reached": "true"}
		}
		req.Updates[c.node], req.NodeEvents[c.node] = &nomad.DrainUpdate{}, event
	}
	return req
}
