package reconcile

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// openEvals are the evaluations of the job that have not ended, by ID. They are read on first use.
type openEvals struct {
	req  *Request
	byID map[string]*nomad.Evaluation
}

func (o *openEvals) load() map[string]*nomad.Evaluation {
	if o.byID == nil {
		o.byID = map[string]*nomad.Evaluation{}
		for e := range o.req.Evals() {
			if !e.TerminalStatus() {
				o.byID[e.ID] = e
			}
		}
	}
	return o.byID
}

// pending reports whether a follow-up evaluation has not ended. It may have been canceled or deleted.
func (o *openEvals) pending(id string) bool { return o.req.Evals == nil || o.load()[id] != nil }

// waits reports whether another evaluation of the job waits until a time, or longer.
func (o *openEvals) waits(until time.Time) bool {
	if o.req.Evals == nil {
		return false
	}
	for id, e := range o.load() {
		if id != o.req.Eval.ID && e.Status == nomad.EvalStatusPending && !e.WaitUntil.Before(until) {
			return true
		}
	}
	return false
}
