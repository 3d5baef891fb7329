package feasible

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// preemptDelta is how far below a job's priority that of another must be for
// its allocations to give way.
const preemptDelta = 10

// Preempt returns the allocations that have to give way for one of the ask, of
// a job of the priority, and what it would get then. Lower priorities give way
// first, and none that need not. ok is false when even all of them don't make
// room. What is counted stays as it was.
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
	// Take back what was given away in vain, the most important first.
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

// preemptible returns what may give way, the least important first; among
// equals the biggest, so that few have to go.
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
