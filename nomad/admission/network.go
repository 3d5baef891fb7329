package admission

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// isolates returns an error (409) if the job isolates the network of a group while servers of the region may be of
// another build. They drop the fields isolate and egress, which Nomad does not have: a client that reads its allocation
// from one would run the group without isolation.
func (a *Admitter) isolates(job *nomad.Job) error {
	for _, tg := range job.TaskGroups {
		if slices.ContainsFunc(tg.Networks, separates) {
			return a.cfg.OnlyOurs(fmt.Sprintf("isolate and egress in the network of group %q", tg.Name))
		}
	}
	return nil
}

// separates reports whether the network separates its allocations from others.
func separates(n *nomad.NetworkResource) bool { return n.Isolate || n.Egress != nil }
