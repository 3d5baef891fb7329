package state

import (
	"errors"
	"iter"
	"maps"
	"reflect"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// scalingPolicies holds the policies of all groups and tasks.
var scalingPolicies = &table.Table[nomad.ScalingPolicy]{
	Name: TableScalingPolicy,
	ID:   func(p *nomad.ScalingPolicy) table.Key { return table.KeyOf(p.ID) },
	Indexes: []table.Index[nomad.ScalingPolicy]{
		{Name: "job", Key: func(p *nomad.ScalingPolicy) table.Key {
			return table.KeyOf(p.Target[nomad.ScalingTargetNamespace], p.Target[nomad.ScalingTargetJob])
		}},
	},
}

// scalingEvents holds the scaling events of each job.
var scalingEvents = &table.Table[nomad.JobScalingEvents]{
	Name: TableScalingEvent,
	ID:   func(e *nomad.JobScalingEvents) table.Key { return table.KeyOf(e.Namespace, e.JobID) },
}

// ScalingPolicy returns the policy, or nil if there is none.
func (s *Snapshot) ScalingPolicy(ws memdb.WatchSet, id string) *nomad.ScalingPolicy {
	return scalingPolicies.Get(s.tx, ws, table.KeyOf(id))
}

// ScalingPolicies returns every policy, by ID.
func (s *Snapshot) ScalingPolicies(ws memdb.WatchSet) iter.Seq[*nomad.ScalingPolicy] {
	return scalingPolicies.All(s.tx, ws)
}

// ScalingPoliciesByPrefix returns the policies whose ID begins with p.
func (s *Snapshot) ScalingPoliciesByPrefix(ws memdb.WatchSet, p string) iter.Seq[*nomad.ScalingPolicy] {
	return scalingPolicies.Prefixed(s.tx, ws, table.Primary, table.PrefixOf(p))
}

// ScalingPoliciesByJob returns the policies of a job.
func (s *Snapshot) ScalingPoliciesByJob(ws memdb.WatchSet, ns, job string) iter.Seq[*nomad.ScalingPolicy] {
	return scalingPolicies.By(s.tx, ws, "job", table.KeyOf(ns, job))
}

// JobScalingEvents returns the scaling events of a job, or nil if there are none.
func (s *Snapshot) JobScalingEvents(ws memdb.WatchSet, ns, job string) *nomad.JobScalingEvents {
	return scalingEvents.Get(s.tx, ws, table.KeyOf(ns, job))
}

// ScalingEvents returns the scaling events of every job that has some, by namespace and ID.
func (s *Snapshot) ScalingEvents(ws memdb.WatchSet) iter.Seq[*nomad.JobScalingEvents] {
	return scalingEvents.All(s.tx, ws)
}

// scaled identifies what a policy of a job scales. A policy keeps its ID while these are equal.
type scaled struct{ kind, group, task string }

func scaledBy(p *nomad.ScalingPolicy) scaled {
	return scaled{p.Type, p.Target[nomad.ScalingTargetGroup], p.Target[nomad.ScalingTargetTask]}
}

// putScalingPolicies stores the policies of the groups of a job and deletes its other policies.
// The IDs come from the command, where the leader has put them. A policy without an ID is not
// stored.
func (t *txn) putScalingPolicies(j *nomad.Job) {
	stored := map[scaled]*nomad.ScalingPolicy{}
	for p := range scalingPolicies.By(t, nil, "job", table.KeyOf(j.Namespace, j.ID)) {
		stored[scaledBy(p)] = p
	}
	j.EachScaling(func(tg *nomad.TaskGroup, task *nomad.Task, p *nomad.ScalingPolicy) {
		p = policyOf(p, j.ScalingTarget(tg, task))
		t.putScalingPolicy(p, stored[scaledBy(p)])
		delete(stored, scaledBy(p))
	})
	for _, old := range stored {
		scalingPolicies.Delete(t.Txn, old)
	}
}

// putScalingPolicy stores a policy. old is the stored one for the same target, or nil.
func (t *txn) putScalingPolicy(p, old *nomad.ScalingPolicy) {
	switch {
	case old != nil:
		p.ID, p.CreateIndex, p.ModifyIndex = old.ID, old.CreateIndex, old.ModifyIndex
		if reflect.DeepEqual(p, old) {
			return
		}
	case t.belongsToOther(p):
		return
	case p.ID == "":
		t.log.Warn("scaling policy without ID is not stored", "namespace", p.Target[nomad.ScalingTargetNamespace],
			"job", p.Target[nomad.ScalingTargetJob], "group", p.Target[nomad.ScalingTargetGroup])
		return
	default:
		p.CreateIndex = t.Index
	}
	p.ModifyIndex = t.Index
	scalingPolicies.Put(t.Txn, p)
}

// belongsToOther reports whether the ID of a policy is that of a policy of another job. Leaders of
// Nomad copy the policies of a job to its children, with the ID.
func (t *txn) belongsToOther(p *nomad.ScalingPolicy) bool {
	same := scalingPolicies.Get(t, nil, table.KeyOf(p.ID))
	return p.ID != "" && same != nil && (same.Target[nomad.ScalingTargetNamespace] != p.Target[nomad.ScalingTargetNamespace] ||
		same.Target[nomad.ScalingTargetJob] != p.Target[nomad.ScalingTargetJob])
}

// restoreScaling adds the policies of a job if the snapshot has none of them, as snapshots of
// earlier versions of this project.
func (t *txn) restoreScaling(j *nomad.Job) {
	for range scalingPolicies.By(t, nil, "job", table.KeyOf(j.Namespace, j.ID)) {
		return
	}
	t.putScalingPolicies(j)
}

// policyOf returns the row of the policy of a job with this target.
func policyOf(policy *nomad.ScalingPolicy, target map[string]string) *nomad.ScalingPolicy {
	p := *policy
	canonicalPolicy(&p)
	p.Target = maps.Clone(p.Target)
	if p.Target == nil {
		p.Target = map[string]string{}
	}
	maps.Copy(p.Target, target)
	return &p
}

// canonicalPolicy sets the type, which older servers leave out.
func canonicalPolicy(p *nomad.ScalingPolicy) {
	if p.Type == "" {
		p.Type = nomad.ScalingPolicyTypeHorizontal
	}
}

// disableScaling disables the policies of a job that is stopped. It copies what it changes.
func disableScaling(j *nomad.Job) {
	*j = *j.MapScaling(func(p *nomad.ScalingPolicy) *nomad.ScalingPolicy {
		policy := *p
		policy.Enabled = false
		return &policy
	})
}

// deleteScaling deletes the policies and events of a purged job.
func (t *txn) deleteScaling(j *nomad.Job) {
	k := table.KeyOf(j.Namespace, j.ID)
	for p := range scalingPolicies.By(t, nil, "job", k) {
		scalingPolicies.Delete(t.Txn, p)
	}
	if e := scalingEvents.Get(t, nil, k); e != nil {
		scalingEvents.Delete(t.Txn, e)
	}
}

// AddScalingEvent adds an event to a group of a job. The newest event is the first, and the oldest
// ones beyond the limit are deleted.
func (s *Store) AddScalingEvent(index uint64, req *message.ScalingEventRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if req.ScalingEvent == nil {
			return errors.New("add scaling event: missing event")
		}
		k := table.KeyOf(req.Namespace, req.JobID)
		if jobs.Get(t, nil, k) == nil {
			return apierror.UnknownJob(req.JobID) // purged after the request
		}
		event := *req.ScalingEvent
		event.CreateIndex = t.Index
		row := &nomad.JobScalingEvents{
			Namespace:     req.Namespace,
			JobID:         req.JobID,
			ModifyIndex:   t.Index,
			ScalingEvents: map[string][]*nomad.ScalingEvent{},
		}
		if old := scalingEvents.Get(t, nil, k); old != nil {
			maps.Copy(row.ScalingEvents, old.ScalingEvents)
		}
		events := append([]*nomad.ScalingEvent{&event}, row.ScalingEvents[req.TaskGroup]...)
		row.ScalingEvents[req.TaskGroup] = events[:min(len(events), nomad.JobTrackedScalingEvents)]
		scalingEvents.Put(t.Txn, row)
		return nil
	})
}
