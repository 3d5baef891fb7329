package feasible

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// preemptDelta is the minimum difference of priority between a job and the jobs whose allocations
// it may preempt.
const preemptDelta = 10

// parallelPenalty is added to the distance of an allocation for each victim of its group beyond the max_parallel of
// its migrate block.
const parallelPenalty = 50.0

// Preemption is a search for allocations to preempt on one node.
type Preemption struct {
	Namespace, Job string // of the allocation to place
	Priority       int
	// Victims returns how many allocations of a group the plan already preempts.
	Victims func(namespace, job, group string) int
}

// Preempt returns the allocations to preempt so that the job can place the ask, and the resources it would get. It
// begins with the lowest priority, and picks no more allocations than needed. ok is false if preempting all of them
// does not make enough room. The usage is unchanged on return.
//
// What is missing decides what is picked: the holders of static ports, the holders of devices, or else the
// allocations whose resources are most similar to those that are still needed.
func (u *Usage) Preempt(ask *Ask, rng *rand.Rand, p Preemption) (victims []*nomad.Allocation, got *nomad.AllocatedResources, ok bool) {
	s := &displacement{Preemption: p, usage: u, ask: ask, need: ask.use}
	for _, a := range u.allocs {
		if a.Job != nil && a.Job.Priority <= p.Priority-preemptDelta && (a.Namespace != p.Namespace || a.JobID != p.Job) {
			s.candidates = append(s.candidates, a)
		}
	}
	slices.SortFunc(s.candidates, func(a, b *nomad.Allocation) int {
		return cmp.Or(cmp.Compare(a.Job.Priority, b.Job.Priority), cmp.Compare(a.ID, b.ID))
	})
	defer func() {
		for _, a := range s.victims {
			u.Add(a)
		}
	}()
	got, why := u.Fit(ask, rng)
	for why != "" {
		if !s.remove(s.next(why)) {
			return nil, nil, false
		}
		got, why = u.Fit(ask, rng)
	}
	got = s.spare(got, rng)
	return slices.Clone(s.victims), got, true
}

// displacement is the state of one call of Preempt.
type displacement struct {
	Preemption
	usage      *Usage
	ask        *Ask
	need       Used                // what the victims so far do not cover
	candidates []*nomad.Allocation // not picked yet, the lowest priority first
	victims    []*nomad.Allocation // removed from the usage
}

// next returns the allocations to remove for the exhausted dimension, or nil.
func (s *displacement) next(dimension string) []*nomad.Allocation {
	switch {
	case strings.HasPrefix(dimension, portCollision):
		return s.portHolders(strings.TrimPrefix(dimension, portCollision))
	case dimension == DimensionDevices:
		return s.deviceHolders()
	case dimension == DimensionCores:
		return s.closest(func(a *nomad.Allocation) bool { return len(a.AllocatedResources.Flatten().Cores) > 0 })
	case dimension == DimensionNUMA:
		return s.closest(s.bound)
	}
	return s.closest(func(*nomad.Allocation) bool { return true })
}

// closest returns the allocation of the lowest priority whose resources are most similar to those needed.
func (s *displacement) closest(eligible func(*nomad.Allocation) bool) []*nomad.Allocation {
	var best *nomad.Allocation
	least := math.Inf(1)
	for _, a := range s.candidates {
		if best != nil && a.Job.Priority > best.Job.Priority {
			break
		}
		if !eligible(a) {
			continue
		}
		if d := distance(s.need, a) + s.penalty(a); best == nil || d < least {
			best, least = a, d
		}
	}
	if best == nil {
		return nil
	}
	return []*nomad.Allocation{best}
}

// distance returns how much the resources of an allocation differ from those needed.
func distance(need Used, a *nomad.Allocation) float64 {
	have, sum := a.AllocatedResources.Flatten(), 0.0
	for _, pair := range [][2]int64{{need.MemoryMB, have.MemoryMB}, {need.CPU, have.CPU}, {need.DiskMB, have.DiskMB}} {
		if pair[0] > 0 {
			part := float64(pair[0]-pair[1]) / float64(pair[0])
			sum += part * part
		}
	}
	return math.Sqrt(sum)
}

// penalty makes it less likely that more allocations of a group are preempted than its migrate block allows at once.
func (s *displacement) penalty(a *nomad.Allocation) float64 {
	tg := a.Job.TaskGroup(a.TaskGroup)
	if tg == nil || tg.Migrate == nil || tg.Migrate.MaxParallel <= 0 {
		return 0
	}
	n := 0
	if s.Victims != nil {
		n = s.Victims(a.Namespace, a.JobID, a.TaskGroup)
	}
	for _, v := range s.victims {
		if v.Namespace == a.Namespace && v.JobID == a.JobID && v.TaskGroup == a.TaskGroup {
			n++
		}
	}
	if n < tg.Migrate.MaxParallel {
		return 0
	}
	return parallelPenalty * float64(n+1-tg.Migrate.MaxParallel)
}

// portHolders returns the candidates that hold the static port, written label=port, on the first address of its host
// network that is held by candidates only.
func (s *displacement) portHolders(port string) []*nomad.Allocation {
	label, _, _ := strings.Cut(port, "=")
	k := picker{node: s.usage.node, ports: s.usage.ports}
	for _, n := range s.ask.networks() {
		for i := range n.ReservedPorts {
			p := &n.ReservedPorts[i]
			if p.Label != label {
				continue
			}
			hosts, _ := k.hosts(p)
			for _, at := range hosts {
				if at.reserved.has(p.Value) {
					continue
				}
				holders := slices.DeleteFunc(slices.Clone(s.candidates), func(a *nomad.Allocation) bool {
					return !holdsPort(a.AllocatedResources, at.ip, p.Value)
				})
				if len(holders) > 0 && len(holders) == at.uses[p.Value] {
					return holders
				}
			}
		}
	}
	return nil
}

// holdsPort reports whether the resources include the port of the address.
func holdsPort(r *nomad.AllocatedResources, ip string, port int) bool {
	if slices.ContainsFunc(r.Shared.Ports, func(m nomad.AllocatedPortMapping) bool {
		return m.HostIP == ip && m.Value == port && !m.IgnoreCollision
	}) {
		return true
	}
	networks := slices.Clone(r.Shared.Networks)
	if len(r.Shared.Ports) > 0 {
		networks = nil
	}
	for _, t := range r.Tasks {
		networks = append(networks, t.Networks...)
	}
	return slices.ContainsFunc(networks, func(n *nomad.NetworkResource) bool {
		return n.IP == ip && slices.ContainsFunc(slices.Concat(n.ReservedPorts, n.DynamicPorts), func(p nomad.Port) bool {
			return p.Value == port && !p.IgnoreCollision
		})
	})
}

// remove removes allocations from the usage. It returns false if the list is empty.
func (s *displacement) remove(list []*nomad.Allocation) bool {
	for _, a := range list {
		s.usage.Remove(a.ID)
		s.victims = append(s.victims, a)
		s.candidates = slices.DeleteFunc(s.candidates, func(c *nomad.Allocation) bool { return c == a })
		s.need.Add(a.AllocatedResources.Flatten(), -1)
	}
	return len(list) > 0
}

// spare puts back the victims that are superfluous, the least similar to the ask last, and returns the resources of
// the ask.
func (s *displacement) spare(got *nomad.AllocatedResources, rng *rand.Rand) *nomad.AllocatedResources {
	order := slices.Clone(s.victims)
	slices.SortStableFunc(order, func(a, b *nomad.Allocation) int {
		return cmp.Compare(distance(s.ask.use, a), distance(s.ask.use, b))
	})
	for _, a := range order {
		s.usage.Add(a)
		if again, why := s.usage.Fit(s.ask, rng); why == "" {
			got = again
			s.victims = slices.DeleteFunc(s.victims, func(v *nomad.Allocation) bool { return v == a })
			continue
		}
		s.usage.Remove(a.ID)
	}
	return got
}
