package plan

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Dry checks a plan against a snapshot as the Applier does, and returns the result with the Raft command that would
// commit it. It signs no identities. Simulations use it.
func Dry(snap *state.Snapshot, p *nomad.Plan, now time.Time) (*nomad.PlanResult, *message.ApplyPlanResultsRequest, error) {
	c := &candidate{plan: p, view: view{snap: snap}, job: p.Job, now: now}
	if c.job == nil && p.JobInfo != nil {
		c.job = snap.Job(nil, p.JobInfo.Namespace, p.JobInfo.ID)
	}
	c.view.job = c.job
	if err := c.checkJob(); err != nil {
		return nil, nil, err
	}
	var err error
	if c.result, _, err = c.view.evaluate(p); err != nil {
		return nil, nil, err
	}
	c.keepQuota()
	c.result.RefreshIndex = c.refresh(nil)
	return c.result, c.request(), nil
}
