package state

import (
	"iter"
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

// jobVersions holds the stored versions of each job, ordered by version.
var jobVersions = &table[nomad.Job]{
	name: TableJobVersion,
	id:   func(j *nomad.Job) key { return keyOf(j.Namespace, j.ID).number(j.Version) },
}

// jobSubmissions holds the submitted source of job versions.
var jobSubmissions = &table[nomad.JobSubmission]{
	name: TableJobSubmission,
	id:   func(s *nomad.JobSubmission) key { return keyOf(s.Namespace, s.JobID).number(s.Version) },
}

// JobVersion returns one version of a job, or nil if it is not stored.
func (s *Snapshot) JobVersion(ws memdb.WatchSet, ns, id string, v uint64) *nomad.Job {
	return jobVersions.get(s.tx, ws, keyOf(ns, id).number(v))
}

// JobVersions returns the stored versions of a job, newest first.
func (s *Snapshot) JobVersions(ws memdb.WatchSet, ns, id string) []*nomad.Job {
	return slices.Collect(jobVersions.reversed(s.tx, ws, primary, keyOf(ns, id)))
}

// AllJobVersions returns the stored versions of every job, by namespace, ID and version.
func (s *Snapshot) AllJobVersions() iter.Seq[*nomad.Job] { return jobVersions.all(s.tx, nil) }

// JobSubmission returns the submitted source of a job version, or nil if it is not stored.
func (s *Snapshot) JobSubmission(ws memdb.WatchSet, ns, id string, v uint64) *nomad.JobSubmission {
	return jobSubmissions.get(s.tx, ws, keyOf(ns, id).number(v))
}

// putJobVersion stores the version and deletes the oldest versions beyond the limit. Tagged
// versions are kept and do not count towards the limit.
func (t *txn) putJobVersion(j *nomad.Job, source *nomad.JobSubmission) {
	jobVersions.put(t.Txn, j)
	if source != nil {
		kept := *source
		kept.Namespace, kept.JobID, kept.Version, kept.JobModifyIndex = j.Namespace, j.ID, j.Version, j.JobModifyIndex
		jobSubmissions.put(t.Txn, &kept)
	}
	untagged := 0
	for v := range jobVersions.reversed(t, nil, primary, keyOf(j.Namespace, j.ID)) {
		if v.VersionTag != nil {
			continue
		}
		if untagged++; untagged <= nomad.JobDefaultTrackedVersions {
			continue
		}
		jobVersions.delete(t.Txn, v)
		if src := jobSubmissions.get(t, nil, keyOf(v.Namespace, v.ID).number(v.Version)); src != nil {
			jobSubmissions.delete(t.Txn, src)
		}
	}
}

// SetJobStability marks a version of a job as stable or not stable.
func (s *Store) SetJobStability(index uint64, req *nomad.JobStabilityRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		return t.setStable(req)
	})
}

// setStable marks a version of a job. As in Nomad 2.0, it also updates the job itself if the
// version is the current one.
func (t *txn) setStable(req *nomad.JobStabilityRequest) error {
	v := jobVersions.get(t, nil, keyOf(req.Namespace, req.JobID).number(req.JobVersion))
	if v == nil || v.Stable == req.Stable {
		return nil
	}
	marked := *v
	j := jobs.get(t, nil, keyOf(req.Namespace, req.JobID))
	current := j != nil && j.Version == req.JobVersion
	if current {
		marked.Status = t.jobStatus(j)
	}
	marked.Stable, marked.ModifyIndex = req.Stable, t.Index
	jobVersions.put(t.Txn, &marked)
	if current {
		updated := *j
		updated.Status, updated.Stable, updated.ModifyIndex = marked.Status, req.Stable, t.Index
		jobs.put(t.Txn, &updated)
		t.countChild(&updated, j)
	}
	return nil
}
