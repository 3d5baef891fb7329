package state

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var jobSummaries = &table.Table[nomad.JobSummary]{
	Name: TableJobSummary,
	ID:   func(s *nomad.JobSummary) table.Key { return table.KeyOf(s.Namespace, s.JobID) },
}

// JobSummary returns the number of allocations of a job by group and status, or nil if the job
// does not exist.
func (s *Snapshot) JobSummary(ws memdb.WatchSet, ns, id string) *nomad.JobSummary {
	return jobSummaries.Get(s.tx, ws, table.KeyOf(ns, id))
}

// newSummary returns a summary whose counts are zero.
func newSummary(j *nomad.Job, index uint64) *nomad.JobSummary {
	sum := &nomad.JobSummary{JobID: j.ID, Namespace: j.Namespace, Summary: map[string]nomad.TaskGroupSummary{},
		Children: &nomad.JobChildrenSummary{}, CreateIndex: index, ModifyIndex: index}
	addGroups(sum, j)
	return sum
}

// addGroups adds an empty summary for each group of j that has none. It reports whether it added
// one.
func addGroups(sum *nomad.JobSummary, j *nomad.Job) bool {
	added := false
	for _, tg := range j.TaskGroups {
		if _, ok := sum.Summary[tg.Name]; !ok {
			sum.Summary[tg.Name] = nomad.TaskGroupSummary{}
			added = true
		}
	}
	return added
}

// canonicalSummary sets fields that older servers leave out of snapshots.
func canonicalSummary(sum *nomad.JobSummary) {
	if sum.Summary == nil {
		sum.Summary = map[string]nomad.TaskGroupSummary{}
	}
	if sum.Children == nil {
		sum.Children = &nomad.JobChildrenSummary{}
	}
}

// editSummary calls edit with a copy of the summary, and stores the copy if edit returns true.
// The allocations of a purged job are not counted, because it has no summary.
func (t *txn) editSummary(ns, id string, edit func(*nomad.JobSummary) bool) {
	old := jobSummaries.Get(t, nil, table.KeyOf(ns, id))
	if old == nil {
		return
	}
	sum, children := *old, *old.Children
	sum.Summary, sum.Children = maps.Clone(old.Summary), &children
	if edit(&sum) {
		sum.ModifyIndex = t.Index
		jobSummaries.Put(t.Txn, &sum)
		t.followPluginSummary(&sum)
	}
}

// upsertSummaryOfJob ensures that the summary of j has an entry for each of its groups.
func (t *txn) upsertSummaryOfJob(j *nomad.Job) {
	if jobSummaries.Get(t, nil, table.KeyOf(j.Namespace, j.ID)) == nil {
		jobSummaries.Put(t.Txn, newSummary(j, t.Index))
		return
	}
	t.editSummary(j.Namespace, j.ID, func(sum *nomad.JobSummary) bool { return addGroups(sum, j) })
}

// countChild updates the parent's counts after a dispatched or periodic child changed its status.
// old is nil for a new child.
func (t *txn) countChild(j, old *nomad.Job) {
	if j.ParentID == "" || old != nil && old.Status == j.Status {
		return
	}
	t.editSummary(j.Namespace, j.ParentID, func(sum *nomad.JobSummary) bool {
		if old != nil {
			*childCount(sum.Children, old.Status)--
		}
		*childCount(sum.Children, j.Status)++
		return true
	})
}

// uncountChild counts a purged child as dead, because the counts of a parent include purged
// children.
func (t *txn) uncountChild(j *nomad.Job) {
	dead := *j
	dead.Status = nomad.JobStatusDead
	t.countChild(&dead, j)
}

// childCount returns the counter of a job status.
func childCount(c *nomad.JobChildrenSummary, status string) *int64 {
	switch status {
	case nomad.JobStatusRunning:
		return &c.Running
	case nomad.JobStatusDead:
		return &c.Dead
	}
	return &c.Pending
}

// count is the change to the number of allocations of a group by status.
type count struct{ queued, starting, running, complete, failed, lost, unknown int }

// counts collects the changes of one transaction, so that each summary is written once.
type counts map[incarnation]map[string]*count

// incarnation identifies a job from its registration to its purge. Allocations that outlive a
// purge are not counted in a later job with the same ID.
type incarnation struct {
	nomad.NamespacedID
	created uint64
}

// incarnationOf returns the incarnation of the job of an allocation.
func incarnationOf(a *nomad.Allocation) incarnation {
	in := incarnation{NamespacedID: a.JobNamespacedID()}
	if a.Job != nil {
		in.created = a.Job.CreateIndex
	}
	return in
}

// group returns the changes of a group.
func (c counts) group(job incarnation, name string) *count {
	groups := c[job]
	if groups == nil {
		groups = map[string]*count{}
		c[job] = groups
	}
	if groups[name] == nil {
		groups[name] = &count{}
	}
	return groups[name]
}

// moved counts an allocation whose status changed from that of old to that of a. old is nil for a
// new allocation. The complete and failed counts never decrease.
func (c counts) moved(a, old *nomad.Allocation) {
	if old != nil && old.ClientStatus == a.ClientStatus {
		return
	}
	g := c.group(incarnationOf(a), a.TaskGroup)
	if old != nil && !isHistory(old.ClientStatus) {
		*g.of(old.ClientStatus)--
	}
	*g.of(a.ClientStatus)++
	if old == nil && a.ClientStatus == nomad.AllocClientStatusPending {
		g.queued--
	}
}

// isHistory reports whether the count of a client status never decreases.
func isHistory(status string) bool {
	return status == nomad.AllocClientStatusComplete || status == nomad.AllocClientStatusFailed
}

// of returns the counter of a client status.
func (c *count) of(status string) *int {
	switch status {
	case nomad.AllocClientStatusRunning:
		return &c.running
	case nomad.AllocClientStatusComplete:
		return &c.complete
	case nomad.AllocClientStatusFailed:
		return &c.failed
	case nomad.AllocClientStatusLost:
		return &c.lost
	case nomad.AllocClientStatusUnknown:
		return &c.unknown
	}
	return &c.starting
}

// compareIncarnations orders by namespace, ID and the index of creation.
func compareIncarnations(a, b incarnation) int {
	return cmp.Or(compareNamespaced(a.NamespacedID, b.NamespacedID), cmp.Compare(a.created, b.created))
}

// applyCounts adds the collected changes to the summaries.
func (t *txn) applyCounts(all counts) {
	for _, id := range slices.SortedFunc(maps.Keys(all), compareIncarnations) {
		groups := all[id]
		t.editSummary(id.Namespace, id.ID, func(sum *nomad.JobSummary) bool {
			changed := false
			if sum.CreateIndex > id.created {
				return false
			}
			for _, name := range slices.Sorted(maps.Keys(groups)) {
				old := sum.Summary[name]
				if now := groups[name].added(old); now != old {
					sum.Summary[name] = now
					changed = true
				}
			}
			return changed
		})
	}
}

// added returns the summary of a group plus the changes. No count falls below zero.
func (c *count) added(s nomad.TaskGroupSummary) nomad.TaskGroupSummary {
	return nomad.TaskGroupSummary{
		Queued:   max(0, s.Queued+c.queued),
		Complete: max(0, s.Complete+c.complete),
		Failed:   max(0, s.Failed+c.failed),
		Running:  max(0, s.Running+c.running),
		Starting: max(0, s.Starting+c.starting),
		Lost:     max(0, s.Lost+c.lost),
		Unknown:  max(0, s.Unknown+c.unknown),
	}
}

// ReconcileJobSummaries recomputes every summary from the allocations.
func (s *Store) ReconcileJobSummaries(index uint64) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for j := range jobs.All(t, nil) {
			sum := newSummary(j, index)
			if old := jobSummaries.Get(t, nil, table.KeyOf(j.Namespace, j.ID)); old != nil {
				sum.CreateIndex = old.CreateIndex
			}
			for child := range jobs.By(t, nil, "parent", table.KeyOf(j.Namespace, j.ID)) {
				*childCount(sum.Children, child.Status)++
			}
			recount := counts{}
			for a := range allocs.By(t, nil, "job", table.KeyOf(j.Namespace, j.ID)) {
				recount.moved(a, nil)
			}
			groups := recount[incarnation{j.NamespacedID(), j.CreateIndex}]
			for _, name := range slices.Sorted(maps.Keys(groups)) {
				c := groups[name]
				c.queued = t.queued(j, name)
				sum.Summary[name] = c.added(nomad.TaskGroupSummary{})
			}
			jobSummaries.Put(t.Txn, sum)
			t.followPluginSummary(sum)
		}
		return nil
	})
}

// queued returns the queued allocations of a group from the newest evaluation of j that has any.
func (t *txn) queued(j *nomad.Job, group string) int {
	var newest *nomad.Evaluation
	for e := range evals.By(t, nil, "job", table.KeyOf(j.Namespace, j.ID)) {
		if len(e.QueuedAllocations) > 0 && (newest == nil || e.ModifyIndex > newest.ModifyIndex) {
			newest = e
		}
	}
	if newest == nil {
		return 0
	}
	return newest.QueuedAllocations[group]
}
