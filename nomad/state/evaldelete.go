package state

import (
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// errNotPaused is the error of a deletion by a user while schedulers may use the evaluations.
var errNotPaused = errors.New("evaluations are deleted only while the evaluation broker is paused")

// Reap deletes evaluations and allocations. IDs that do not exist are skipped. A deletion by a user
// requires a paused broker. With a filter it deletes one page of the evaluations that match and are
// removable, by ID.
func (s *Store) Reap(index uint64, req *message.EvalReapRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if c := schedulerConfigs.Get(t, nil, theOnly); req.UserInitiated && (c == nil || !c.PauseEvalBroker) {
			return errNotPaused
		}
		ids := req.Evals
		if req.Filter != "" {
			page, err := t.filteredEvals(req)
			if err != nil {
				return err
			}
			ids = page
		}
		touched := map[nomad.NamespacedID]bool{}
		for _, id := range ids {
			if e := evals.Get(t, nil, table.KeyOf(id)); e != nil {
				evals.Delete(t.Txn, e)
				touched[nomad.NamespacedID{ID: e.JobID, Namespace: e.Namespace}] = true
			}
		}
		for _, id := range req.Allocs {
			if a := allocs.Get(t, nil, table.KeyOf(id)); a != nil {
				allocs.Delete(t.Txn, a)
				t.account(nil, a)
				t.deregister("alloc", id)
				t.followPluginAlloc(nil, a)
			}
		}
		t.setCollectedStatuses(touched)
		return nil
	})
}

// filteredEvals returns the IDs of the evaluations on the page of a request.
func (t *txn) filteredEvals(req *message.EvalReapRequest) ([]string, error) {
	list := page.List[*nomad.Evaluation]{
		Opts:  &message.QueryOptions{Filter: req.Filter, PerPage: req.PerPage, NextToken: req.NextToken},
		Order: page.ByID,
		At:    func(e *nomad.Evaluation) page.Cursor { return page.ByID.At(e.CreateIndex, e.ID) },
		Keep:  func(e *nomad.Evaluation) bool { return evalRemovable(t, e) },

		Applied: true,
	}
	found, _, err := list.Page(evals.All(t, nil))
	if err != nil {
		return nil, fmt.Errorf("delete evaluations by filter: %w", err)
	}
	ids := make([]string, len(found))
	for i, e := range found {
		ids[i] = e.ID
	}
	return ids, nil
}

// EvalRemovable reports whether a user may delete the evaluation: its job does not run, or none of its
// allocations runs or may still be replaced.
func (s *Snapshot) EvalRemovable(e *nomad.Evaluation) bool { return evalRemovable(s.tx, e) }

func evalRemovable(r table.Reader, e *nomad.Evaluation) bool {
	job := jobs.Get(r, nil, table.KeyOf(e.Namespace, e.JobID))
	if job.Stopped() || job.Status == nomad.JobStatusDead {
		return true
	}
	for a := range allocs.By(r, nil, "eval", table.KeyOf(e.ID)) {
		if !a.ClientTerminalStatus() || a.MayBeRescheduled() {
			return false
		}
	}
	return true
}
