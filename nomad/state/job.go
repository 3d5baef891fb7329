package state

import (
	"fmt"
	"iter"
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

var jobs = &table[nomad.Job]{
	name:   TableJobs,
	events: true,
	id:     func(j *nomad.Job) key { return keyOf(j.Namespace, j.ID) },
	indexes: []index[nomad.Job]{
		{name: "parent", key: func(j *nomad.Job) key {
			if j.ParentID == "" {
				return nil
			}
			return keyOf(j.Namespace, j.ParentID)
		}},
	},
}

// Job returns the current version of the job, or nil if there is none.
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

// RegisterJob stores a new version of a job and its evaluation in one transaction. It takes
// ownership of both.
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

// evalOfJob stores the evaluation that came with a job command, which it owns. It sets
// JobModifyIndex here because the index is not known earlier.
func (t *txn) evalOfJob(e *nomad.Evaluation, j *nomad.Job) error {
	if e == nil {
		return nil
	}
	e.JobModifyIndex = t.Index
	t.upsertEvals(e)
	t.setJobStatus(j.Namespace, j.ID)
	return nil
}

// checkEnforcedIndex returns an error if the job modify index of the request is not the current
// one. The check is here because only the log orders writes.
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
	j.CreateIndex, j.ModifyIndex, j.JobModifyIndex, j.Version = t.Index, t.Index, t.Index, 0
	j.Status, j.StatusDescription, j.VersionTag = nomad.JobStatusPending, "", nil
	old := jobs.get(t, nil, keyOf(j.Namespace, j.ID))
	if old != nil {
		j.CreateIndex = old.CreateIndex
		j.Version = old.Version + 1
	}
	j.Status = t.jobStatus(j)
	t.upsertSummaryOfJob(j)
	t.countChild(j, old)
	jobs.put(t.Txn, j)
	t.putJobVersion(j, source)
	return nil
}

// canonicalJob sets defaults for fields that older clients and snapshots leave out.
func canonicalJob(j *nomad.Job) {
	if j.NodePool == "" {
		j.NodePool = nomad.NodePoolDefault
	}
	if j.Namespace == "" {
		j.Namespace = nomad.DefaultNamespace
	}
}

// DeregisterJob stops or purges a job, and stores the evaluation that stops its allocations.
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

// forgetJob purges a job. A job that does not exist is not an error.
func (t *txn) forgetJob(id nomad.NamespacedID) *nomad.Job {
	old := jobs.get(t, nil, keyOf(id.Namespace, id.ID))
	if old == nil {
		return &nomad.Job{Namespace: id.Namespace, ID: id.ID}
	}
	t.changes.Removed = append(t.changes.Removed, id)
	t.purgeJob(old)
	return old
}

// stopJob stores a stopped version of the job.
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

// purgeJob deletes a job, its versions, its submissions and its summary.
func (t *txn) purgeJob(j *nomad.Job) {
	k := keyOf(j.Namespace, j.ID)
	t.uncountChild(j)
	jobs.delete(t.Txn, j)
	for v := range jobVersions.by(t, nil, primary, k) {
		jobVersions.delete(t.Txn, v)
	}
	for src := range jobSubmissions.by(t, nil, primary, k) {
		jobSubmissions.delete(t.Txn, src)
	}
	if sum := jobSummaries.get(t, nil, k); sum != nil {
		jobSummaries.delete(t.Txn, sum)
	}
}
