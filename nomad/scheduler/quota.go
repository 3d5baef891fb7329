package scheduler

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// quota is the usage of the namespaces that share the job's quota, as if the plan were committed
// now. A nil quota has no limits.
type quota struct {
	name   string
	limits *nomad.QuotaResources
	held   nomad.QuotaAmount
	snap   State

	// The last resources counted and their amount: allocations of a group often share one value.
	last       *nomad.AllocatedResources
	lastAmount nomad.QuotaAmount
}

// newQuota returns the quota of the job's namespace, or nil if the region has no limit.
func newQuota(snap State, job *nomad.Job) *quota {
	spec := snap.QuotaOf(nil, job.Namespace)
	limits := spec.Resources(job.Region)
	if limits == nil {
		return nil
	}
	return &quota{name: spec.Name, limits: limits, held: snap.QuotaHeld(nil, spec.Name), snap: snap}
}

func (q *quota) amount(r *nomad.AllocatedResources) nomad.QuotaAmount {
	if q.last != r || r == nil {
		q.last, q.lastAmount = r, r.QuotaAmount()
	}
	return q.lastAmount
}

// count adds sign times the resources of an allocation of the job.
func (q *quota) count(a *nomad.Allocation, sign int64) {
	if q != nil {
		q.held.Add(q.amount(a.AllocatedResources), sign)
	}
}

// displaced subtracts the resources of preempted allocations that belong to the same quota.
func (q *quota) displaced(victims []*nomad.Allocation) {
	if q != nil {
		q.held.Add(q.freed(victims), -1)
	}
}

func (q *quota) freed(victims []*nomad.Allocation) nomad.QuotaAmount {
	var out nomad.QuotaAmount
	for _, v := range victims {
		if other := q.snap.QuotaOf(nil, v.Namespace); other != nil && other.Name == q.name {
			out.Add(v.QuotaAmount(), 1)
		}
	}
	return out
}

// exceeded returns whether the option exceeds a limit, and records the limits in its metric.
func (q *quota) exceeded(o *option, m *nomad.AllocMetric) bool {
	if q == nil {
		return false
	}
	held := q.held
	held.Add(q.freed(o.victims), -1)
	m.QuotaExhausted = q.limits.Exceeded(held, q.amount(o.resources))
	if len(m.QuotaExhausted) == 0 {
		return false
	}
	m.ScoreMetaData = nil // no node was chosen
	return true
}

// mergeExhausted adds the limits that are not in the list yet.
func mergeExhausted(to, from []string) []string {
	for _, why := range from {
		if !slices.Contains(to, why) {
			to = append(to, why)
		}
	}
	return to
}
