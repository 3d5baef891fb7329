package state

import (
	"iter"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// periodicLaunches holds the last launch of each periodic job. A new leader launches a job once
// if a launch after that time was missed.
var periodicLaunches = &table.Table[nomad.PeriodicLaunch]{
	Name: TablePeriodicLaunch,
	ID:   func(l *nomad.PeriodicLaunch) table.Key { return table.KeyOf(l.Namespace, l.ID) },
}

// PeriodicLaunch returns the last launch of a periodic job, or nil if it was never active.
func (s *Snapshot) PeriodicLaunch(ws memdb.WatchSet, ns, job string) *nomad.PeriodicLaunch {
	return periodicLaunches.Get(s.tx, ws, table.KeyOf(ns, job))
}

// PeriodicLaunches returns the last launch of every periodic job, by namespace and ID.
func (s *Snapshot) PeriodicLaunches(ws memdb.WatchSet) iter.Seq[*nomad.PeriodicLaunch] {
	return periodicLaunches.All(s.tx, ws)
}

// recordLaunch stores the time of the registration of an active periodic job that has no launch.
// For a child of a periodic job it stores the launch of the parent. A child that is registered
// again does not move the launch back.
func (t *txn) recordLaunch(j *nomad.Job) {
	if j.PeriodicActive() && periodicLaunches.Get(t, nil, table.KeyOf(j.Namespace, j.ID)) == nil {
		t.putLaunch(j.Namespace, j.ID, time.Unix(0, j.SubmitTime).UTC())
	}
	if j.ParentID == "" {
		return
	}
	parent := jobs.Get(t, nil, table.KeyOf(j.Namespace, j.ParentID))
	if parent == nil || !parent.IsPeriodic() || parent.IsParameterized() {
		return
	}
	at, ok := nomad.LaunchTime(parent.ID, j.ID)
	last := periodicLaunches.Get(t, nil, table.KeyOf(parent.Namespace, parent.ID))
	if ok && (last == nil || at.After(last.Launch)) {
		t.putLaunch(parent.Namespace, parent.ID, at)
	}
}

// restoreLaunch adds the launch of an active periodic job if the snapshot lacks it. Snapshots of
// earlier versions of this project have none, and servers of Nomad need it.
func (t *txn) restoreLaunch(j *nomad.Job) {
	if !j.PeriodicActive() || periodicLaunches.Get(t, nil, table.KeyOf(j.Namespace, j.ID)) != nil {
		return
	}
	t.recordLaunch(j)
	for child := range jobs.By(t, nil, "parent", table.KeyOf(j.Namespace, j.ID)) {
		t.recordLaunch(child)
	}
}

func (t *txn) putLaunch(ns, job string, at time.Time) {
	row := &nomad.PeriodicLaunch{ID: job, Namespace: ns, Launch: at, CreateIndex: t.Index, ModifyIndex: t.Index}
	if old := periodicLaunches.Get(t, nil, table.KeyOf(ns, job)); old != nil {
		row.CreateIndex = old.CreateIndex
	}
	periodicLaunches.Put(t.Txn, row)
}

// deleteLaunch deletes the launch of a purged job, which may have been periodic in an earlier
// version.
func (t *txn) deleteLaunch(j *nomad.Job) {
	if row := periodicLaunches.Get(t, nil, table.KeyOf(j.Namespace, j.ID)); row != nil {
		periodicLaunches.Delete(t.Txn, row)
	}
}
