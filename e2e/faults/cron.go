package faults

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// registration is the type of the events of a registered job.
const registration = "JobRegistered"

// Cron is a periodic job whose times are all multiples of a number of seconds.
type Cron struct {
	Job       string
	Every     int64
	NoOverlap bool // prohibit_overlap
}

// CheckCron checks the launches of a periodic job in a history, and returns their number.
//
//   - A child is registered once, has one evaluation of its launch, and one allocation that replaces none.
//   - The times of the launches increase. Each is one of the cron expression, or the current second if at least two
//     were missed.
//   - With prohibit_overlap, every earlier child has ended at a launch.
func CheckCron(changes []Change, cron Cron) (launches int, err error) {
	c := &cronCheck{Cron: cron, registered: map[string]uint64{}, evals: map[string]string{}, allocs: map[string]string{}}
	_, err = replay(changes, func(w *replayed, entry []Change) error {
		for _, change := range entry {
			if err := c.change(w, change); err != nil {
				return err
			}
		}
		return nil
	})
	return len(c.registered), err
}

type cronCheck struct {
	Cron
	last          int64             // time of the last launch
	registered    map[string]uint64 // index by child
	evals, allocs map[string]string // first ID by child
}

func (c *cronCheck) change(w *replayed, change Change) error {
	switch {
	case change.Job != nil && change.Type == registration && c.child(change.Key):
		return c.launch(w, change)
	case change.Eval != nil && change.Eval.TriggeredBy == "periodic-job" && c.child(change.Eval.JobID):
		return once(c.evals, change.Eval.JobID, change.Key, "evaluations of its launch")
	case change.Alloc != nil && change.Alloc.PreviousAllocation == "" && c.child(change.Alloc.JobID):
		return once(c.allocs, change.Alloc.JobID, change.Key, "allocations")
	}
	return nil
}

// once returns an error if the child has another object already.
func once(first map[string]string, child, id, what string) error {
	if was, ok := first[child]; ok && was != id {
		return fmt.Errorf("%s has two %s, %s and %s", child, what, was, id)
	}
	first[child] = id
	return nil
}

func (c *cronCheck) child(id string) bool { return strings.HasPrefix(id, c.Job+"/periodic-") }

// launch checks the registration of a child.
func (c *cronCheck) launch(w *replayed, change Change) error {
	if was, ok := c.registered[change.Key]; ok {
		return fmt.Errorf("%s is registered again, first at index %d", change.Key, was)
	}
	at, err := strconv.ParseInt(strings.TrimPrefix(change.Key, c.Job+"/periodic-"), 10, 64)
	if err != nil {
		return fmt.Errorf("child %s: %w", change.Key, err)
	}
	switch {
	case at <= c.last:
		return fmt.Errorf("%s is launched after that of %d", change.Key, c.last)
	case at%c.Every != 0 && (c.last == 0 || at/c.Every-c.last/c.Every < 2):
		return fmt.Errorf("%s is launched at no time of the job, after that of %d", change.Key, c.last)
	}
	if c.NoOverlap {
		if err := c.overlap(w, change.Key); err != nil {
			return err
		}
	}
	c.last, c.registered[change.Key] = at, change.Index
	return nil
}

// overlap returns an error if another child has not ended.
func (c *cronCheck) overlap(w *replayed, launched string) error {
	for _, a := range w.allocs {
		if c.child(a.JobID) && a.JobID != launched && !ended(a) {
			return fmt.Errorf("%s is launched while %s is %s", launched, a.JobID, a.ClientStatus)
		}
	}
	for _, e := range w.evals {
		if c.child(e.JobID) && e.JobID != launched && (e.Status == api.EvalStatusPending || e.Status == api.EvalStatusBlocked) {
			return fmt.Errorf("%s is launched while an evaluation of %s is %s", launched, e.JobID, e.Status)
		}
	}
	return nil
}
