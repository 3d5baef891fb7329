package feasible

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// preemptDelta is the minimum difference of priority between a job and the jobs whose allocations
// it may preempt.
const preemptDelta = 10

// Preempt returns the allocations to preempt so that a job of the priority can place the ask, and
// the resources it would get. It picks the lowest priorities first and no more allocations than
// needed. ok is false if preempting all of them does not make enough room. The usage is unchanged
// on return.
func (u *Usage) Preempt(ask *Ask, rng *rand.Rand, priority int) (victims []*nomad.Allocation, got *nomad.AllocatedResources, ok bool) {
	var removed []*nomad.Allocation
	defer func() {
		for _, a := range removed {
			u.Add(a)
		}
	}()
	for _, a := range u.preemptible(priority) {
		u.Remove(a.ID)
		removed = append(removed, a)
		if got, ok = u.fits(ask, rng); ok {
			break
		}
	}
	if !ok {
		return nil, nil, false
	}
	// Keep the allocations whose removal was unnecessary, the highest priority first.
	for _, a := range slices.Backward(slices.Clone(removed)) {
		u.Add(a)
		if again, fits := u.fits(ask, rng); fits {
			got = again
			removed = slices.DeleteFunc(removed, func(r *nomad.Allocation) bool { return r == a })
			continue
		}
		u.Remove(a.ID)
	}
	return slices.Clone(removed), got, true
}

func (u *Usage) fits(ask *Ask, rng *rand.Rand) (*nomad.AllocatedResources, bool) {
	got, why := u.Fit(ask, rng)
	return got, why == ""
}

// preemptible returns the allocations that may be preempted, the lowest priority first. Among equal
// priorities the largest is first, so that few are preempted.
func (u *Usage) preemptible(priority int) []*nomad.Allocation {
	var out []*nomad.Allocation
	for _, a := range u.allocs {
		if a.Job != nil && a.Job.Priority <= priority-preemptDelta {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *nomad.Allocation) int {
		x, y := a.AllocatedResources.Flatten(), b.AllocatedResources.Flatten()
		return cmp.Or(
			cmp.Compare(a.Job.Priority, b.Job.Priority),
			cmp.Compare(y.MemoryMB, x.MemoryMB),
			cmp.Compare(y.CPU, x.CPU),
			cmp.Compare(a.ID, b.ID))
	})
	return out
}
