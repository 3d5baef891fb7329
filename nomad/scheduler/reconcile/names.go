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
