package state

import (
	"fmt"
	"iter"
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

// jobSubmissions holds the sources from which job versions were made.
var jobSubmissions = &table[nomad.JobSubmission]{
	name: TableJobSubmission,
	id:   func(s *nomad.JobSubmission) key { return keyOf(s.Namespace, s.JobID).number(s.Version) },
}

// Job returns the job as it was last registered, nil when there is none.
func (s *Snapshot) Job(ws memdb.WatchSet, ns, id string) *nomad.Job {
	return jobs.get(s.tx, ws, keyOf(ns, id))
}

// Jobs returns every job, by namespace and ID.
func (s *Snapshot) Jobs(ws memdb.WatchSet) iter.Seq[*nomad.Job] { return jobs.all(s.tx, ws) }

// JobsByNamespace returns the jobs of a namespace, by ID.
func (s *Snapshot) JobsByNamespace(ws memdb.WatchSet, ns string) iter.Seq[*nomad.Job] {
	return jobs.by(s.tx, ws, primary, keyOf(ns))
}

// JobsByPrefix returns the jobs of a namespace whose ID begins with p.
func (s *Snapshot) JobsByPrefix(ws memdb.WatchSet, ns, p string) iter.Seq[*nomad.Job] {
	return jobs.prefixed(s.tx, ws, primary, prefixOf(ns, p))
}

// JobChildren returns the jobs that were dispatched or launched from parent.
func (s *Snapshot) JobChildren(ws memdb.WatchSet, ns, parent string) iter.Seq[*nomad.Job] {
	return jobs.by(s.tx, ws, "parent", keyOf(ns, parent))
}

// JobVersion returns one version of a job, nil when it is not kept.
func (s *Snapshot) JobVersion(ws memdb.WatchSet, ns, id string, v uint64) *nomad.Job {
	return versionOf(s.tx, ws, ns, id, v)
}

// JobVersions returns the kept versions of a job, newest first.
func (s *Snapshot) JobVersions(ws memdb.WatchSet, ns, id string) []*nomad.Job {
	return versionsOf(s.tx, ws, ns, id)
}

// AllJobVersions returns the kept versions of every job, by namespace, ID and number.
func (s *Snapshot) AllJobVersions() iter.Seq[*nomad.Job] { return allVersions(s.tx) }

// JobSubmission returns the source of a version of a job, nil when it is not kept.
func (s *Snapshot) JobSubmission(ws memdb.WatchSet, ns, id string, v uint64) *nomad.JobSubmission {
	return jobSubmissions.get(s.tx, ws, keyOf(ns, id).number(v))
}

// RegisterJob stores a new version of a job, and in the same transaction the
// evaluation that makes it happen. Both are the store's from then on.
func (s *Store) RegisterJob(index uint64, req *nomad.JobRegisterRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if req.Job == nil {
			return fmt.Errorf("register job: no job")
		}
		if err := t.checkEnforcedIndex(req); err != nil {
			return err
		}
		j := req.Job
		canonicalJob(j)
		if nodePools.get(t, nil, keyOf(j.NodePool)) == nil {
			return fmt.Errorf("job %q is in nonexistent node pool %q", j.ID, j.NodePool)
		}
		if err := t.upsertJob(j, req.Submission); err != nil {
			return err
		}
		if req.Deployment != nil {
			t.putDeployment(req.Deployment)
		}
		return t.evalOfJob(req.Eval, j)
	})
}

// evalOfJob upserts the evaluation that came with a job command, and keeps it. Only here is
// known at which index the job was modified.
func (t *txn) evalOfJob(e *nomad.Evaluation, j *nomad.Job) error {
	if e == nil {
		return nil
	}
	e.JobModifyIndex = t.index
	t.upsertEvals(e)
	t.setJobStatus(j.Namespace, j.ID)
	return nil
}

// checkEnforcedIndex refuses a registration whose sender has seen another
// version of the job. It is decided here because only the log orders writers.
func (t *txn) checkEnforcedIndex(req *nomad.JobRegisterRequest) error {
	if !req.EnforceIndex {
		return nil
	}
	old := jobs.get(t, nil, keyOf(req.Job.Namespace, req.Job.ID))
	want := req.JobModifyIndex
	switch {
	case old == nil && want != 0:
		return nomad.Errorf(500, "%s %d: job does not exist", nomad.RegisterEnforceIndexErrPrefix, want)
	case old != nil && want == 0:
		return nomad.Errorf(500, "%s 0: job already exists", nomad.RegisterEnforceIndexErrPrefix)
	case old != nil && want != old.JobModifyIndex:
		return nomad.Errorf(500, "%s %d: job exists with conflicting job modify index: %d",
			nomad.RegisterEnforceIndexErrPrefix, want, old.JobModifyIndex)
	}
	return nil
}

// upsertJob stores j, which the caller owns, as the newest version.
func (t *txn) upsertJob(j *nomad.Job, source *nomad.JobSubmission) error {
	if namespaces.get(t, nil, keyOf(j.Namespace)) == nil {
		return fmt.Errorf("job %q is in nonexistent namespace %q", j.ID, j.Namespace)
	}
	canonicalJob(j)
	j.CreateIndex, j.ModifyIndex, j.JobModifyIndex, j.Version = t.index, t.index, t.index, 0
	j.Status, j.StatusDescription, j.VersionTag = nomad.JobStatusPending, "", nil
	old := jobs.get(t, nil, keyOf(j.Namespace, j.ID))
	if old != nil {
		j.CreateIndex = old.CreateIndex
		j.Version = old.Version + 1
	}
	j.Status = t.jobStatus(j)
	t.upsertSummaryOfJob(j)
	t.countChild(j, old)
	jobs.put(t, j)
	t.putJobVersion(j, source)
	return nil
}

// canonicalJob fills in what older clients and snapshots leave out.
func canonicalJob(j *nomad.Job) {
	if j.NodePool == "" {
		j.NodePool = nomad.NodePoolDefault
	}
	if j.Namespace == "" {
		j.Namespace = nomad.DefaultNamespace
	}
}

// putJobVersion keeps the version and drops the oldest beyond the limit.
// Tagged versions stay and do not count.
func (t *txn) putJobVersion(j *nomad.Job, source *nomad.JobSubmission) {
	t.putVersion(j)
	if source != nil {
		kept := *source
		kept.Namespace, kept.JobID, kept.Version, kept.JobModifyIndex = j.Namespace, j.ID, j.Version, j.JobModifyIndex
		jobSubmissions.put(t, &kept)
	}
	if j.Version < nomad.JobDefaultTrackedVersions {
		return // there can't be more
	}
	var drop []*nomad.Job
	untagged := 0
	for _, v := range versionsOf(t, nil, j.Namespace, j.ID) {
		if v.VersionTag != nil {
			continue
		}
		if untagged++; untagged > nomad.JobDefaultTrackedVersions {
			drop = append(drop, v)
		}
	}
	for _, v := range drop {
		t.dropVersion(v)
		if src := jobSubmissions.get(t, nil, keyOf(v.Namespace, v.ID).number(v.Version)); src != nil {
			jobSubmissions.delete(t, src)
		}
	}
}

// DeregisterJob stops a job or purges it, and upserts the evaluation that
// stops its allocations.
func (s *Store) DeregisterJob(index uint64, req *nomad.JobDeregisterRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		id := nomad.NamespacedID{ID: req.JobID, Namespace: req.Namespace}
		if req.NoShutdownDelay {
			yes := true
			for a := range allocs.by(t, nil, "job", keyOf(id.Namespace, id.ID)) {
				t.transition(a, &nomad.DesiredTransition{NoShutdownDelay: &yes})
			}
		}
		if req.Purge {
			return t.evalOfJob(req.Eval, t.forgetJob(id))
		}
		j, err := t.stopJob(id, req.SubmitTime)
		if err != nil {
			return err
		}
		return t.evalOfJob(req.Eval, j)
	})
}

// DeregisterJobs stops or purges several jobs.
func (s *Store) DeregisterJobs(index uint64, req *nomad.JobBatchDeregisterRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		ids := make([]nomad.NamespacedID, 0, len(req.Jobs))
		for id := range req.Jobs {
			ids = append(ids, id)
		}
		slices.SortFunc(ids, compareNamespaced)
		for _, id := range ids {
			opt := req.Jobs[id]
			if opt != nil && opt.Purge {
				t.forgetJob(id)
			} else if _, err := t.stopJob(id, req.SubmitTime); err != nil {
				return err
			}
		}
		return nil
	})
}

// forgetJob purges a job. One that is gone already is no error.
func (t *txn) forgetJob(id nomad.NamespacedID) *nomad.Job {
	old := jobs.get(t, nil, keyOf(id.Namespace, id.ID))
	if old == nil {
		return &nomad.Job{Namespace: id.Namespace, ID: id.ID}
	}
	t.changes.Removed = append(t.changes.Removed, id)
	t.purgeJob(old)
	return old
}

// stopJob stops a job, as a new version of it.
func (t *txn) stopJob(id nomad.NamespacedID, submitTime int64) (*nomad.Job, error) {
	old := jobs.get(t, nil, keyOf(id.Namespace, id.ID))
	if old == nil {
		return nil, nomad.UnknownJob(id.ID)
	}
	t.changes.Removed = append(t.changes.Removed, id)
	stopped := *old
	stopped.Stop = true
	if submitTime != 0 {
		stopped.SubmitTime = submitTime
	}
	return &stopped, t.upsertJob(&stopped, nil)
}

// purgeJob forgets a job with its versions, sources and summary.
func (t *txn) purgeJob(j *nomad.Job) {
	k := keyOf(j.Namespace, j.ID)
	t.uncountChild(j)
	jobs.delete(t, j)
	for _, v := range versionsOf(t, nil, j.Namespace, j.ID) {
		t.dropVersion(v)
	}
	for _, src := range slices.Collect(jobSubmissions.by(t, nil, primary, k)) {
		jobSubmissions.delete(t, src)
	}
	if sum := jobSummaries.get(t, nil, k); sum != nil {
		jobSummaries.delete(t, sum)
	}
}

// SetJobStability marks a version of a job as one that worked, or not.
func (s *Store) SetJobStability(index uint64, req *nomad.JobStabilityRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		return t.setStable(req)
	})
}

// setStable marks a version of a job. The current version is stored as the job is now, with
// its status, as Nomad 2.0 stores it.
func (t *txn) setStable(req *nomad.JobStabilityRequest) error {
	v := versionOf(t, nil, req.Namespace, req.JobID, req.JobVersion)
	if v == nil || v.Stable == req.Stable {
		return nil
	}
	marked := *v
	j := jobs.get(t, nil, keyOf(req.Namespace, req.JobID))
	current := j != nil && j.Version == req.JobVersion
	if current {
		marked.Status = t.jobStatus(j)
	}
	marked.Stable, marked.ModifyIndex = req.Stable, t.index
	t.putVersion(&marked)
	if current {
		updated := *j
		updated.Status, updated.Stable, updated.ModifyIndex = marked.Status, req.Stable, t.index
		jobs.put(t, &updated)
		t.countChild(&updated, j)
	}
	return nil
}
