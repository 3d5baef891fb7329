package faults

import (
	"fmt"

	"github.com/open-nomad/open-nomad/api"
)

// Service is a service job whose nodes are drained.
type Service struct {
	Job         string
	Count       int
	MaxParallel int // of its migrate block
}

// CheckDrains checks every drain of a history, and returns the number of completed ones.
//
//   - Nothing is placed on a node that drains, or that is not eligible afterwards.
//   - When a drain completes, every allocation of the node has ended.
//   - Once the service has all its healthy allocations, it never has fewer than count - max_parallel.
//   - Every drain ends.
func CheckDrains(changes []Change, s Service) (drains int, err error) {
	draining, begun := map[string]bool{}, false
	_, err = replay(changes, func(w *replayed, entry []Change) error {
		for _, c := range entry {
			if err := placedWell(w, c); err != nil {
				return err
			}
			if c.Node == nil {
				continue
			}
			was := draining[c.Key]
			draining[c.Key] = c.Node.DrainStrategy != nil
			if d := c.Node.LastDrain; was && !draining[c.Key] && d != nil && d.Status == api.DrainStatusComplete {
				drains++
				if err := w.empty(c.Key); err != nil {
					return err
				}
			}
		}
		n := w.healthyOf(s.Job)
		begun = begun || n >= s.Count
		if begun && n < s.Count-s.MaxParallel {
			return fmt.Errorf("%d allocations of %s are healthy, %d - %d is the limit", n, s.Job, s.Count, s.MaxParallel)
		}
		return nil
	})
	if err != nil {
		return drains, err
	}
	for id, still := range draining {
		if still {
			return drains, fmt.Errorf("the drain of node %s did not end", id)
		}
	}
	if !begun {
		return drains, fmt.Errorf("%s never had its %d healthy allocations", s.Job, s.Count)
	}
	return drains, nil
}

// placedWell returns an error if a change is a placement on a node that is not eligible.
func placedWell(w *replayed, c Change) error {
	if c.Alloc == nil || c.Alloc.CreateIndex != c.Index {
		return nil
	}
	if n := w.nodes[c.Alloc.NodeID]; n != nil && (n.DrainStrategy != nil || n.SchedulingEligibility == api.NodeSchedulingIneligible) {
		return fmt.Errorf("allocation %s was placed on node %s, which drains or is not eligible", c.Alloc.ID, n.ID)
	}
	return nil
}

// empty returns an error if an allocation of a node has not ended.
func (w *replayed) empty(node string) error {
	for _, a := range w.allocs {
		if a.NodeID == node && !ended(a) {
			return fmt.Errorf("the drain of node %s is complete, its allocation %s is %s", node, a.ID, a.ClientStatus)
		}
	}
	return nil
}

// healthyOf returns the number of healthy allocations of a job.
func (w *replayed) healthyOf(job string) (n int) {
	for _, a := range w.allocs {
		if a.JobID == job && healthy(a) {
			n++
		}
	}
	return n
}
