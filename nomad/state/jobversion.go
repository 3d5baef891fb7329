package state

import (
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// jobVersions holds the stored versions of each job, ordered by version.
var jobVersions = &table.Table[nomad.Job]{
	Name: TableJobVersion,
	ID:   func(j *nomad.Job) table.Key { return table.KeyOf(j.Namespace, j.ID).Number(j.Version) },
}

// jobSubmissions holds the submitted source of job versions.
var jobSubmissions = &table.Table[nomad.JobSubmission]{
	Name: TableJobSubmission,
	ID:   func(s *nomad.JobSubmission) table.Key { return table.KeyOf(s.Namespace, s.JobID).Number(s.Version) },
}

// JobVersion returns one version of a job, or nil if it is not stored.
func (s *Snapshot) JobVersion(ws memdb.WatchSet, ns, id string, v uint64) *nomad.Job {
	return jobVersions.Get(s.tx, ws, table.KeyOf(ns, id).Number(v))
}

// JobVersions returns the stored versions of a job, newest first.
func (s *Snapshot) JobVersions(ws memdb.WatchSet, ns, id string) []*nomad.Job {
	return slices.Collect(jobVersions.Reversed(s.tx, ws, table.Primary, table.KeyOf(ns, id)))
}

// JobSubmission returns the submitted source of a job version, or nil if it is not stored.
func (s *Snapshot) JobSubmission(ws memdb.WatchSet, ns, id string, v uint64) *nomad.JobSubmission {
	return jobSubmissions.Get(s.tx, ws, table.KeyOf(ns, id).Number(v))
}

// putJobVersion stores the version and deletes versions beyond the limit. Tagged versions are kept
// and do not count towards the limit.
func (t *txn) putJobVersion(j *nomad.Job, source *nomad.JobSubmission) {
	jobVersions.Put(t.Txn, j)
	if source != nil {
		kept := *source
		kept.Namespace, kept.JobID, kept.Version, kept.JobModifyIndex = j.Namespace, j.ID, j.Version, j.JobModifyIndex
		jobSubmissions.Put(t.Txn, &kept)
	}
	t.trimVersions(j.Namespace, j.ID)
}

// trimVersions deletes the oldest untagged versions beyond the limit. The newest stable version is kept, because a
// failed deployment reverts to it: the next older one goes instead.
func (t *txn) trimVersions(ns, id string) {
	var untagged []*nomad.Job // newest first
	var stable *nomad.Job
	for v := range jobVersions.Reversed(t, nil, table.Primary, table.KeyOf(ns, id)) {
		if stable == nil && v.Stable {
			stable = v
		}
		if v.VersionTag == nil {
			untagged = append(untagged, v)
		}
	}
	for i, excess := len(untagged)-1, len(untagged)-nomad.JobDefaultTrackedVersions; excess > 0; i-- {
		if untagged[i] == stable {
			continue
		}
		t.deleteVersion(untagged[i])
		excess--
	}
}

// deleteVersion deletes a version of a job and its source.
func (t *txn) deleteVersion(v *nomad.Job) {
	jobVersions.Delete(t.Txn, v)
	if src := jobSubmissions.Get(t, nil, table.KeyOf(v.Namespace, v.ID).Number(v.Version)); src != nil {
		jobSubmissions.Delete(t.Txn, src)
	}
}

// SetJobStability marks a version of a job as stable or not stable.
func (s *Store) SetJobStability(index uint64, req *message.JobStabilityRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		return t.setStable(req)
	})
}

// setStable marks a version of a job. As in Nomad 2.0, it also updates the job itself if the
// version is the current one.
func (t *txn) setStable(req *message.JobStabilityRequest) error {
	v := jobVersions.Get(t, nil, table.KeyOf(req.Namespace, req.JobID).Number(req.JobVersion))
	if v == nil || v.Stable == req.Stable {
		return nil
	}
	marked := *v
	j := jobs.Get(t, nil, table.KeyOf(req.Namespace, req.JobID))
	current := j != nil && j.Version == req.JobVersion
	if current {
		marked.Status = t.jobStatus(j)
	}
	marked.Stable, marked.ModifyIndex = req.Stable, t.Index
	jobVersions.Put(t.Txn, &marked)
	if current {
		updated := *j
		updated.Status, updated.Stable, updated.ModifyIndex = marked.Status, req.Stable, t.Index
		jobs.Put(t.Txn, &updated)
		t.countChild(&updated, j)
	}
	return nil
}
