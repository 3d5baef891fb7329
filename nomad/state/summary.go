package state

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

// JobSummary returns how many allocations of a job are in which status, by
// group, nil when there is no such job.
func (s *Snapshot) JobSummary(ws memdb.WatchSet, ns, id string) *nomad.JobSummary {
	if sum := jobSummaries.get(s.tx, ws, keyOf(ns, id)); sum != nil {
		return sum.told()
	}
	return nil
}

// summaries returns the summary of every job.
func (s *Snapshot) summaries(ws memdb.WatchSet) iter.Seq[*nomad.JobSummary] {
	return func(yield func(*nomad.JobSummary) bool) {
		for sum := range jobSummaries.all(s.tx, ws) {
			if !yield(sum.told()) {
				return
			}
		}
	}
}

// summary is a nomad.JobSummary as it is kept: a map, with the one group that most jobs
// have, would be a sixth of all that is kept of a job.
type summary struct {
	id                nomad.NamespacedID
	groups            []groupSummary            // by name
	children          *nomad.JobChildrenSummary // never changed in place; nil for zeros
	created, modified uint64                    // indexes
}

type groupSummary struct {
	name string
	nomad.TaskGroupSummary
}

// newSummary returns a summary of zeros.
func newSummary(j *nomad.Job, index uint64) *summary {
	sum := &summary{id: j.NamespacedID(), created: index, modified: index, groups: make([]groupSummary, 0, len(j.TaskGroups))}
	for _, tg := range j.TaskGroups {
		sum.group(tg.Name)
	}
	return sum
}

// summaryOf keeps what a snapshot says.
func summaryOf(told *nomad.JobSummary) *summary {
	sum := &summary{id: nomad.NamespacedID{ID: told.JobID, Namespace: told.Namespace}, children: told.Children,
		created: told.CreateIndex, modified: told.ModifyIndex, groups: make([]groupSummary, 0, len(told.Summary))}
	if sum.children != nil && *sum.children == (nomad.JobChildrenSummary{}) {
		sum.children = nil
	}
	for _, name := range sortedKeys(told.Summary) {
		*sum.group(name) = told.Summary[name]
	}
	return sum
}

// told is the summary as callers and snapshots have it.
func (s *summary) told() *nomad.JobSummary {
	out := &nomad.JobSummary{JobID: s.id.ID, Namespace: s.id.Namespace, Summary: make(map[string]nomad.TaskGroupSummary, len(s.groups)),
		Children: s.children, CreateIndex: s.created, ModifyIndex: s.modified}
	if out.Children == nil {
		out.Children = &nomad.JobChildrenSummary{}
	}
	for _, g := range s.groups {
		out.Summary[g.name] = g.TaskGroupSummary
	}
	return out
}

// find returns where a group is, or would be.
func (s *summary) find(name string) (at int, ok bool) {
	return slices.BinarySearchFunc(s.groups, name, func(g groupSummary, name string) int { return strings.Compare(g.name, name) })
}

// counts are those of a group, zeros where there is none.
func (s *summary) counts(name string) nomad.TaskGroupSummary {
	if at, ok := s.find(name); ok {
		return s.groups[at].TaskGroupSummary
	}
	return nomad.TaskGroupSummary{}
}

// group returns the counts of a group, which is added if it is not there. Only a summary
// that nobody else has may be asked.
func (s *summary) group(name string) *nomad.TaskGroupSummary {
	at, ok := s.find(name)
	if !ok {
		s.groups = slices.Insert(s.groups, at, groupSummary{name: name})
	}
	return &s.groups[at].TaskGroupSummary
}

// editSummary gives edit a copy of the summary to change, and stores it when
// edit says that it did. A purged job has none: its allocations count nowhere.
func (t *txn) editSummary(ns, id string, edit func(*summary) bool) {
	old := jobSummaries.get(t, nil, keyOf(ns, id))
	if old == nil {
		return
	}
	sum := *old
	sum.groups = slices.Clone(old.groups)
	if edit(&sum) {
		sum.modified = t.index
		jobSummaries.put(t, &sum)
	}
}

// upsertSummaryOfJob makes sure that the summary has a row for each group of j.
func (t *txn) upsertSummaryOfJob(j *nomad.Job) {
	if jobSummaries.get(t, nil, keyOf(j.Namespace, j.ID)) == nil {
		jobSummaries.put(t, newSummary(j, t.index))
		return
	}
	t.editSummary(j.Namespace, j.ID, func(sum *summary) bool {
		before := len(sum.groups)
		for _, tg := range j.TaskGroups {
			sum.group(tg.Name)
		}
		return len(sum.groups) > before
	})
}

// countChild moves a dispatched or periodic child between the counts of its
// parent. old is nil for a child that is new.
func (t *txn) countChild(j, old *nomad.Job) {
	if j.ParentID == "" || old != nil && old.Status == j.Status {
		return
	}
	t.editSummary(j.Namespace, j.ParentID, func(sum *summary) bool {
		var children nomad.JobChildrenSummary
		if sum.children != nil {
			children = *sum.children
		}
		if old != nil {
			*childCount(&children, old.Status)--
		}
		*childCount(&children, j.Status)++
		sum.children = &children
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

// compareIncarnations orders by namespace, ID and the index of creation.
func compareIncarnations(a, b incarnation) int {
	return cmp.Or(compareNamespaced(a.NamespacedID, b.NamespacedID), cmp.Compare(a.created, b.created))
}

// applyCounts writes gathered changes to the summaries.
func (t *txn) applyCounts(all counts) {
	for _, id := range slices.SortedFunc(maps.Keys(all), compareIncarnations) {
		groups := all[id]
		t.editSummary(id.Namespace, id.ID, func(sum *summary) bool {
			changed := false
			if sum.created > id.created {
				return false
			}
			for _, name := range sortedKeys(groups) {
				old := sum.counts(name)
				if now := groups[name].added(old); now != old {
					*sum.group(name) = now
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
				sum.created = old.created
			}
			for child := range jobs.by(t, nil, "parent", keyOf(j.Namespace, j.ID)) {
				if sum.children != nil {
					*childCount(sum.children, child.Status)++
				}
			}
			recount := counts{}
			for a := range allocs.by(t, nil, "job", keyOf(j.Namespace, j.ID)) {
				recount.moved(a, nil)
			}
			groups := recount[incarnation{j.NamespacedID(), j.CreateIndex}]
			for _, name := range sortedKeys(groups) {
				c := groups[name]
				c.queued = t.queued(j, name)
				*sum.group(name) = c.added(nomad.TaskGroupSummary{})
			}
			jobSummaries.put(t, sum)
		}
		return nil
	})
}

// queued returns what the newest evaluation of j says is still to be placed.
func (t *txn) queued(j *nomad.Job, group string) int {
	var newest *nomad.Evaluation
	for e := range evals.by(t, nil, "job", keyOf(j.Namespace, j.ID)) {
		if len(e.QueuedAllocations) > 0 && (newest == nil || e.ModifyIndex > newest.ModifyIndex) {
			newest = e
		}
	}
	if newest == nil {
		return 0
	}
	return newest.QueuedAllocations[group]
}
