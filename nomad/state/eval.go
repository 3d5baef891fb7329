package state

import (
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var evals = &table.Table[nomad.Evaluation]{
	Name:   TableEvals,
	Events: true,
	ID:     func(e *nomad.Evaluation) table.Key { return table.KeyOf(e.ID) },
	Indexes: []table.Index[nomad.Evaluation]{
		{Name: "job", Key: func(e *nomad.Evaluation) table.Key { return table.KeyOf(e.Namespace, e.JobID) }},
	},
}

// storeEval inserts or replaces an evaluation. A replacement keeps the CreateIndex.
func (t *txn) storeEval(e *nomad.Evaluation) {
	if old := evals.Get(t, nil, table.KeyOf(e.ID)); old != nil {
		e.CreateIndex = old.CreateIndex
	}
	evals.Put(t.Txn, e)
}

// Eval returns the evaluation, or nil if there is none.
func (s *Snapshot) Eval(ws memdb.WatchSet, id string) *nomad.Evaluation {
	return evals.Get(s.tx, ws, table.KeyOf(id))
}

// Evals returns every evaluation.
func (s *Snapshot) Evals(ws memdb.WatchSet) iter.Seq[*nomad.Evaluation] { return evals.All(s.tx, ws) }

// EvalsByJob returns the evaluations of a job, by ID.
func (s *Snapshot) EvalsByJob(ws memdb.WatchSet, ns, job string) iter.Seq[*nomad.Evaluation] {
	return evals.By(s.tx, ws, "job", table.KeyOf(ns, job))
}

// EvalsByPrefix returns the evaluations whose ID begins with p.
func (s *Snapshot) EvalsByPrefix(ws memdb.WatchSet, p string) iter.Seq[*nomad.Evaluation] {
	return evals.Prefixed(s.tx, ws, table.Primary, table.PrefixOf(p))
}

// UpsertEvals stores evaluations and takes ownership of them. A complete evaluation without
// failed placements cancels the blocked evaluations of its job.
func (s *Store) UpsertEvals(index uint64, req *message.EvalUpdateRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		touched := map[nomad.NamespacedID]bool{}
		for _, e := range req.Evals {
			t.upsertEvals(e)
			touched[nomad.NamespacedID{ID: e.JobID, Namespace: e.Namespace}] = true
		}
		t.setJobStatuses(touched)
		return nil
	})
}

// upsertEvals stores evaluations that the caller owns.
func (t *txn) upsertEvals(list ...*nomad.Evaluation) {
	for _, e := range list {
		e.CreateIndex, e.ModifyIndex = t.Index, t.Index
		t.putQueued(e)
		if e.Status == nomad.EvalStatusComplete && len(e.FailedTGAllocs) == 0 {
			t.cancelBlocked(e)
		}
		t.putEval(e)
	}
}

// putEval stores an evaluation and adds it to the changes.
func (t *txn) putEval(e *nomad.Evaluation) {
	t.storeEval(e)
	t.changes.Evals = append(t.changes.Evals, e)
}

// putQueued copies the queued allocations of the evaluation to the job summary.
func (t *txn) putQueued(e *nomad.Evaluation) {
	if len(e.QueuedAllocations) == 0 {
		return
	}
	t.editSummary(e.Namespace, e.JobID, func(sum *nomad.JobSummary) bool {
		changed := false
		for name, n := range e.QueuedAllocations {
			if group, ok := sum.Summary[name]; ok && group.Queued != n {
				group.Queued = n
				sum.Summary[name] = group
				changed = true
			}
		}
		return changed
	})
}

// cancelBlocked cancels the blocked evaluations of the job of done.
func (t *txn) cancelBlocked(done *nomad.Evaluation) {
	var blocked []*nomad.Evaluation
	for e := range evals.By(t, nil, "job", table.KeyOf(done.Namespace, done.JobID)) {
		if e.Status == nomad.EvalStatusBlocked && e.ID != done.ID {
			blocked = append(blocked, e)
		}
	}
	for _, e := range blocked {
		cancelled := *e
		cancelled.Status = nomad.EvalStatusCancelled
		cancelled.StatusDescription = fmt.Sprintf("evaluation %q successful", done.ID)
		cancelled.ModifyIndex, cancelled.ModifyTime = t.Index, done.ModifyTime
		t.putEval(&cancelled)
	}
}
