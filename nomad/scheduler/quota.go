package scheduler

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/quota"
)

// quotaUse is the usage of the namespaces that share the job's quota, as if the plan were committed
// now. A nil quotaUse has no limits.
type quotaUse struct {
	name   string
	limits *quota.Resources
	inUse  quota.Amount
	snap   State

	// The last resources counted and their amount: allocations of a group often share one value.
	last       *nomad.AllocatedResources
	lastAmount quota.Amount
}

// newQuotaUse returns the quota of the job's namespace, or nil if the region has no limit.
func newQuotaUse(snap State, job *nomad.Job) *quotaUse {
	spec := snap.QuotaOf(nil, job.Namespace)
	limits := spec.Resources(job.Region)
	if limits == nil {
		return nil
	}
	return &quotaUse{name: spec.Name, limits: limits, inUse: snap.QuotaUsed(nil, spec.Name), snap: snap}
}

func (q *quotaUse) amount(r *nomad.AllocatedResources) quota.Amount {
	if q.last != r || r == nil {
		q.last, q.lastAmount = r, quota.OfResources(r)
	}
	return q.lastAmount
}

// count adds sign times the resources of an allocation of the job.
func (q *quotaUse) count(a *nomad.Allocation, sign int64) {
	if q != nil {
		q.inUse.Add(q.amount(a.AllocatedResources), sign)
	}
}

// displaced subtracts the resources of preempted allocations that belong to the same quota.
func (q *quotaUse) displaced(victims []*nomad.Allocation) {
	if q != nil {
		q.inUse.Add(q.freed(victims), -1)
	}
}

func (q *quotaUse) freed(victims []*nomad.Allocation) quota.Amount {
	var out quota.Amount
	for _, v := range victims {
		if other := q.snap.QuotaOf(nil, v.Namespace); other != nil && other.Name == q.name {
			out.Add(quota.Of(v), 1)
		}
	}
	return out
}

// exceeded returns whether the option exceeds a limit, and records the limits in its metric.
func (q *quotaUse) exceeded(o *option, m *nomad.AllocMetric) bool {
	if q == nil {
		return false
	}
	inUse := q.inUse
	inUse.Add(q.freed(o.victims), -1)
	m.QuotaExhausted = q.limits.Exceeded(inUse, q.amount(o.resources))
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
