package state

import (
	"maps"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

// JobSummary returns how many allocations of a job are in which status, by
// group, nil when there is no such job.
func (s *Snapshot) JobSummary(ws memdb.WatchSet, ns, id string) *nomad.JobSummary {
	return jobSummaries.get(s.tx, ws, keyOf(ns, id))
}

// editSummary gives edit a copy of the summary to change, and stores it when
// edit says that it did. A purged job has none: its allocations count nowhere.
func (t *txn) editSummary(ns, id string, edit func(*nomad.JobSummary) bool) {
	old := jobSummaries.get(t, nil, keyOf(ns, id))
	if old == nil {
		return
	}
	sum := copySummary(old)
	if edit(sum) {
		sum.ModifyIndex = t.index
		jobSummaries.put(t, sum)
	}
}

// copySummary copies a summary with its counts.
func copySummary(old *nomad.JobSummary) *nomad.JobSummary {
	sum := *old
	sum.Summary = maps.Clone(old.Summary)
	if sum.Summary == nil {
		sum.Summary = map[string]nomad.TaskGroupSummary{}
	}
	if old.Children != nil {
		children := *old.Children
		sum.Children = &children
	}
	return &sum
}

// upsertSummaryOfJob makes sure that the summary has a row for each group of j.
func (t *txn) upsertSummaryOfJob(j *nomad.Job) {
	if jobSummaries.get(t, nil, keyOf(j.Namespace, j.ID)) == nil {
		jobSummaries.put(t, newSummary(j, t.index))
		return
	}
	t.editSummary(j.Namespace, j.ID, func(sum *nomad.JobSummary) bool {
		changed := false
		for _, tg := range j.TaskGroups {
			if _, ok := sum.Summary[tg.Name]; !ok {
				sum.Summary[tg.Name] = nomad.TaskGroupSummary{}
				changed = true
			}
		}
		return changed
	})
}

// newSummary returns a summary of zeros.
func newSummary(j *nomad.Job, index uint64) *nomad.JobSummary {
	sum := &nomad.JobSummary{JobID: j.ID, Namespace: j.Namespace, Summary: map[string]nomad.TaskGroupSummary{},
		CreateIndex: index, ModifyIndex: index}
	if j.IsPeriodic() || j.IsParameterized() {
		sum.Children = &nomad.JobChildrenSummary{}
	}
	for _, tg := range j.TaskGroups {
		sum.Summary[tg.Name] = nomad.TaskGroupSummary{}
	}
	return sum
}

// countChild moves a dispatched or periodic child between the counts of its
// parent. old is nil for a child that is new.
func (t *txn) countChild(j, old *nomad.Job) {
	if j.ParentID == "" || old != nil && old.Status == j.Status {
		return
	}
	t.editSummary(j.Namespace, j.ParentID, func(sum *nomad.JobSummary) bool {
		if sum.Children == nil {
			sum.Children = &nomad.JobChildrenSummary{}
		}
		if old != nil {
			*childCount(sum.Children, old.Status)--
		}
		*childCount(sum.Children, j.Status)++
		return true
	})
}

// uncountChild counts a child that is forgotten as dead: the counts of a
// parent are its history.
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

// count is what happened to the number of allocations of a group in a status.
type count struct{ queued, starting, running, complete, failed, lost, unknown int }

// counts gathers the changes of one transaction, so that each summary is
// written once.
type counts map[incarnation]map[string]*count

// incarnation names a job from its registration to its purge. Allocations that
// outlive a purge do not count in a later job of the same name.
type incarnation struct {
	nomad.NamespacedID
	created uint64
}

// incarnationOf returns the job that an allocation was made for.
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

// moved records that an allocation came from the status of old, nil for a new
// one, into that of a. Complete and failed are a history and never go down.
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

// isHistory says whether the count of a client status only grows.
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

// applyCounts writes gathered changes to the summaries.
func (t *txn) applyCounts(all counts) {
	for id, groups := range all {
		t.editSummary(id.Namespace, id.ID, func(sum *nomad.JobSummary) bool {
			changed := false
			if sum.CreateIndex > id.created {
				return false
			}
			for name, c := range groups {
				old := sum.Summary[name]
				if now := c.added(old); now != old {
					sum.Summary[name] = now
					changed = true
				}
			}
			return changed
		})
	}
}

// added returns the summary of a group with the changes. No count falls below zero.
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

// ReconcileJobSummaries counts every summary anew from the allocations.
func (s *Store) ReconcileJobSummaries(index uint64) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for j := range jobs.all(t, nil) {
			sum := newSummary(j, index)
			if old := jobSummaries.get(t, nil, keyOf(j.Namespace, j.ID)); old != nil {
				sum.CreateIndex = old.CreateIndex
			}
			for child := range jobs.by(t, nil, "parent", keyOf(j.Namespace, j.ID)) {
				if sum.Children != nil {
					*childCount(sum.Children, child.Status)++
				}
			}
			recount := counts{}
			for a := range allocs.by(t, nil, "job", keyOf(j.Namespace, j.ID)) {
				recount.moved(a, nil)
			}
			for name, c := range recount[incarnation{j.NamespacedID(), j.CreateIndex}] {
				c.queued = t.queued(j, name)
				sum.Summary[name] = c.added(nomad.TaskGroupSummary{})
			}
			jobSummaries.put(t, sum)
		}
		return nil
	})
}

// queued returns what the newest evaluation of j says is still to be placed.
func (t *txn) queued(j *nomad.Job, group string) int {
	var newest *nomad.Evaluation
	for _, e := range evalsOf(t, nil, j.Namespace, j.ID) {
		if len(e.QueuedAllocations) > 0 && (newest == nil || e.ModifyIndex > newest.ModifyIndex) {
			newest = e
		}
	}
	if newest == nil {
		return 0
	}
	return newest.QueuedAllocations[group]
}
