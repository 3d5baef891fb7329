package reconcile

import "github.com/open-nomad/open-nomad/nomad"

// names returns the free allocation names of a group, lowest index first.
type names struct {
	job, group string
	taken      map[int]bool
	next       int
}

func newNames(job, group string) *names {
	return &names{job: job, group: group, taken: map[int]bool{}}
}

func (n *names) take(a *nomad.Allocation) {
	if i := a.Index(); i >= 0 {
		n.taken[i] = true
	}
}

func (n *names) free() string {
	for n.taken[n.next] {
		n.next++
	}
	n.taken[n.next] = true
	return nomad.AllocName(n.job, n.group, uint(n.next))
}

// newNamesOf returns the names of the replacements of updated allocations: their own, or a free one if another kept
// allocation has it. That is so after the promotion of canaries in a group that grows.
func newNamesOf(updated, keep []*nomad.Allocation, free *names) []string {
	if len(updated) == 0 {
		return nil
	}
	replaced, taken := map[string]bool{}, map[string]bool{}
	for _, a := range updated {
		replaced[a.ID] = true
	}
	for _, a := range keep {
		if !replaced[a.ID] {
			taken[a.Name] = true
		}
	}
	out := make([]string, len(updated))
	for i, a := range updated {
		if out[i] = a.Name; taken[a.Name] {
			out[i] = free.free()
		}
		taken[out[i]] = true
	}
	return out
}
