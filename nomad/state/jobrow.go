package state

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

// jobRow is all there is of a job under its name alone. A registration writes all of it,
// and every server does so for every registration.
type jobRow struct {
	id      nomad.NamespacedID
	job     *nomad.Job // as it is now
	version *nomad.Job // the newest version, as it was registered
	summary *summary   // of its allocations
}

// bare says that nothing is left of a job.
func (r *jobRow) bare() bool {
	return r.job == nil && r.version == nil && r.summary == nil
}

var jobRows = &table[jobRow]{
	name: TableJobs,
	id:   func(r *jobRow) key { return keyOf(r.id.Namespace, r.id.ID) },
	bare: (*jobRow).bare,
	indexes: []index[jobRow]{
		{"parent", func(r *jobRow) key {
			if r.job == nil || r.job.ParentID == "" {
				return nil
			}
			return keyOf(r.job.Namespace, r.job.ParentID)
		}},
	},
}

var jobs = &part[jobRow, nomad.Job]{
	name: TableJobs,
	told: true,
	in:   jobRows,
	of:   func(r *jobRow) **nomad.Job { return &r.job },
	make: func(j *nomad.Job) *jobRow { return &jobRow{id: j.NamespacedID(), job: j} },
}

var jobSummaries = &part[jobRow, summary]{
	name: TableJobSummary,
	in:   jobRows,
	of:   func(r *jobRow) **summary { return &r.summary },
	make: func(s *summary) *jobRow { return &jobRow{id: s.id, summary: s} },
}

// newestVersions holds of every job the version that was registered last, unless it came
// with a snapshot.
var newestVersions = &part[jobRow, nomad.Job]{
	name: TableJobVersion,
	in:   jobRows,
	of:   func(r *jobRow) **nomad.Job { return &r.version },
	make: func(j *nomad.Job) *jobRow { return &jobRow{id: j.NamespacedID(), version: j} },
}

// jobVersions holds the versions before the newest, and all that came with a snapshot,
// ordered by number. Where both have a version newestVersions is right.
var jobVersions = &table[nomad.Job]{
	name: TableJobVersion,
	id:   func(j *nomad.Job) key { return keyOf(j.Namespace, j.ID).number(j.Version) },
}

// versionOf returns one version of a job, nil when it is not kept.
func versionOf(tx reader, ws memdb.WatchSet, ns, id string, v uint64) *nomad.Job {
	k := keyOf(ns, id)
	if newest := newestVersions.get(tx, ws, k); newest != nil && newest.Version == v {
		return newest
	}
	return jobVersions.get(tx, ws, k.number(v))
}

// versionsOf returns the kept versions of a job, newest first.
func versionsOf(tx reader, ws memdb.WatchSet, ns, id string) []*nomad.Job {
	k := keyOf(ns, id)
	newest := newestVersions.get(tx, ws, k)
	var out []*nomad.Job
	if newest != nil {
		out = append(out, newest)
	}
	for v := range jobVersions.reversed(tx, ws, primary, k) {
		if newest == nil || v.Version != newest.Version {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *nomad.Job) int { return cmp.Compare(b.Version, a.Version) })
	return out
}

// allVersions returns every version of every job, by namespace, ID and number, wherever
// it is kept: a snapshot tells nothing of that.
func allVersions(tx reader) iter.Seq[*nomad.Job] {
	return func(yield func(*nomad.Job) bool) {
		next, stop := iter.Pull(jobVersions.all(tx, nil))
		defer stop()
		older, more := next()
		for newest := range newestVersions.all(tx, nil) {
			at := jobVersions.id(newest)
			for ; more && bytes.Compare(jobVersions.id(older), at) <= 0; older, more = next() {
				if !bytes.Equal(jobVersions.id(older), at) && !yield(older) {
					return
				}
			}
			if !yield(newest) {
				return
			}
		}
		for ; more; older, more = next() {
			if !yield(older) {
				return
			}
		}
	}
}

// putVersion stores a version: as the newest, or where it is already.
func (t *txn) putVersion(j *nomad.Job) {
	newest := newestVersions.get(t, nil, keyOf(j.Namespace, j.ID))
	switch {
	case newest == nil || newest.Version == j.Version:
		newestVersions.put(t, j)
	case newest.Version > j.Version:
		jobVersions.put(t, j)
	default:
		jobVersions.put(t, newest)
		newestVersions.put(t, j)
	}
}

// dropVersion forgets a version.
func (t *txn) dropVersion(j *nomad.Job) {
	if newest := newestVersions.get(t, nil, keyOf(j.Namespace, j.ID)); newest == j {
		newestVersions.delete(t, j)
	}
	if older := jobVersions.get(t, nil, jobVersions.id(j)); older != nil {
		jobVersions.delete(t, older)
	}
}
