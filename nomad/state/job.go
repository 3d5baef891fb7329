package state

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var jobs = &table.Table[nomad.Job]{
	Name:   TableJobs,
	Events: true,
	ID:     func(j *nomad.Job) table.Key { return table.KeyOf(j.Namespace, j.ID) },
	Indexes: []table.Index[nomad.Job]{
		{Name: "parent", Key: func(j *nomad.Job) table.Key {
			if j.ParentID == "" {
				return nil
			}
			return table.KeyOf(j.Namespace, j.ParentID)
		}},
	},
}

// Job returns the current version of the job, or nil if there is none.
func (s *Snapshot) Job(ws memdb.WatchSet, ns, id string) *nomad.Job {
	return jobs.Get(s.tx, ws, table.KeyOf(ns, id))
}

// Jobs returns every job, by namespace and ID.
func (s *Snapshot) Jobs(ws memdb.WatchSet) iter.Seq[*nomad.Job] { return jobs.All(s.tx, ws) }

// JobsByNamespace returns the jobs of a namespace, by ID.
func (s *Snapshot) JobsByNamespace(ws memdb.WatchSet, ns string) iter.Seq[*nomad.Job] {
	return jobs.By(s.tx, ws, table.Primary, table.KeyOf(ns))
}

// JobsByPrefix returns the jobs of a namespace whose ID begins with p.
func (s *Snapshot) JobsByPrefix(ws memdb.WatchSet, ns, p string) iter.Seq[*nomad.Job] {
	return jobs.Prefixed(s.tx, ws, table.Primary, table.PrefixOf(ns, p))
}

// JobChildren returns the jobs that were dispatched or launched from parent.
func (s *Snapshot) JobChildren(ws memdb.WatchSet, ns, parent string) iter.Seq[*nomad.Job] {
	return jobs.By(s.tx, ws, "parent", table.KeyOf(ns, parent))
}

// ErrDispatched is the error of a dispatch with the idempotency token of another dispatch.
var ErrDispatched = errors.New("a job was already dispatched with the idempotency token")

// DispatchedWith returns the child of a parameterized job that was dispatched with an idempotency
// token, or nil if there is none or the token is empty.
func (s *Snapshot) DispatchedWith(ns, parent, token string) *nomad.Job {
	return dispatchedWith(s.tx, ns, parent, token)
}

func dispatchedWith(tx table.Reader, ns, parent, token string) *nomad.Job {
	if token == "" {
		return nil
	}
	for child := range jobs.By(tx, nil, "parent", table.KeyOf(ns, parent)) {
		if child.DispatchIdempotencyToken == token {
			return child
		}
	}
	return nil
}

// RegisterJob stores a new version of a job and its evaluation in one transaction. It takes
// ownership of both.
func (s *Store) RegisterJob(index uint64, req *message.JobRegisterRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if req.Job == nil {
			return fmt.Errorf("register job: missing job")
		}
		if err := t.checkEnforcedIndex(req); err != nil {
			return err
		}
		j := req.Job
		t.at = j.SubmitTime
		canonicalJob(j)
		if old := dispatchedWith(t, j.Namespace, j.ParentID, j.DispatchIdempotencyToken); j.ParentID != "" && old != nil && old.ID != j.ID {
			return fmt.Errorf("dispatch of job %q: %w", j.ParentID, ErrDispatched)
		}
		if nodePools.Get(t, nil, table.KeyOf(j.NodePool)) == nil {
			return fmt.Errorf("job %q is in nonexistent node pool %q", j.ID, j.NodePool)
		}
		if err := t.upsertJob(j, req.Submission); err != nil {
			return err
		}
		t.recordLaunch(j)
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
func (t *txn) checkEnforcedIndex(req *message.JobRegisterRequest) error {
	if !req.EnforceIndex {
		return nil
	}
	old := jobs.Get(t, nil, table.KeyOf(req.Job.Namespace, req.Job.ID))
	want := req.JobModifyIndex
	switch {
	case old == nil && want != 0:
		return apierror.Errorf(500, "%s %d: job does not exist", nomad.RegisterEnforceIndexErrPrefix, want)
	case old != nil && want == 0:
		return apierror.Errorf(500, "%s 0: job already exists", nomad.RegisterEnforceIndexErrPrefix)
	case old != nil && want != old.JobModifyIndex:
		return apierror.Errorf(500, "%s %d: job exists with conflicting job modify index: %d",
			nomad.RegisterEnforceIndexErrPrefix, want, old.JobModifyIndex)
	}
	return nil
}

// upsertJob stores j, which the caller owns, as the newest version.
func (t *txn) upsertJob(j *nomad.Job, source *nomad.JobSubmission) error {
	if namespaces.Get(t, nil, table.KeyOf(j.Namespace)) == nil {
		return fmt.Errorf("job %q is in nonexistent namespace %q", j.ID, j.Namespace)
	}
	canonicalJob(j)
	j.CreateIndex, j.ModifyIndex, j.JobModifyIndex, j.Version = t.Index, t.Index, t.Index, 0
	j.Status, j.StatusDescription, j.VersionTag = nomad.JobStatusPending, "", nil
	old := jobs.Get(t, nil, table.KeyOf(j.Namespace, j.ID))
	if old != nil {
		j.CreateIndex = old.CreateIndex
		j.Version = old.Version + 1
	}
	j.Status = t.jobStatus(j)
	t.upsertSummaryOfJob(j)
	t.countChild(j, old)
	jobs.Put(t.Txn, j)
	t.followPluginJob(j.NamespacedID(), old)
	t.putScalingPolicies(j)
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
func (s *Store) DeregisterJob(index uint64, req *message.JobDeregisterRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		id := nomad.NamespacedID{ID: req.JobID, Namespace: req.Namespace}
		t.at = req.SubmitTime
		if req.NoShutdownDelay {
			yes := true
			for a := range allocs.By(t, nil, "job", table.KeyOf(id.Namespace, id.ID)) {
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
func (s *Store) DeregisterJobs(index uint64, req *message.JobBatchDeregisterRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		ids := make([]nomad.NamespacedID, 0, len(req.Jobs))
		for id := range req.Jobs {
			ids = append(ids, id)
		}
		slices.SortFunc(ids, compareNamespaced)
		t.at = req.SubmitTime
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
	old := jobs.Get(t, nil, table.KeyOf(id.Namespace, id.ID))
	if old == nil {
		return &nomad.Job{Namespace: id.Namespace, ID: id.ID}
	}
	t.changes.Removed = append(t.changes.Removed, id)
	t.purgeJob(old)
	return old
}

// stopJob stores a stopped version of the job.
func (t *txn) stopJob(id nomad.NamespacedID, submitTime int64) (*nomad.Job, error) {
	old := jobs.Get(t, nil, table.KeyOf(id.Namespace, id.ID))
	if old == nil {
		return nil, apierror.UnknownJob(id.ID)
	}
	t.changes.Removed = append(t.changes.Removed, id)
	stopped := *old
	stopped.Stop = true
	disableScaling(&stopped)
	if submitTime != 0 {
		stopped.SubmitTime = submitTime
	}
	return &stopped, t.upsertJob(&stopped, nil)
}

// purgeJob deletes a job with its versions, submissions, summary, launch, scaling policies,
// scaling events and volume claims. Its plugins no longer expect it.
func (t *txn) purgeJob(j *nomad.Job) {
	k := table.KeyOf(j.Namespace, j.ID)
	t.uncountChild(j)
	jobs.Delete(t.Txn, j)
	for v := range jobVersions.By(t, nil, table.Primary, k) {
		jobVersions.Delete(t.Txn, v)
	}
	for src := range jobSubmissions.By(t, nil, table.Primary, k) {
		jobSubmissions.Delete(t.Txn, src)
	}
	if sum := jobSummaries.Get(t, nil, k); sum != nil {
		jobSummaries.Delete(t.Txn, sum)
	}
	t.deleteLaunch(j)
	t.deleteScaling(j)
	t.deleteClaims(j)
	t.followPluginJob(j.NamespacedID(), j)
}
