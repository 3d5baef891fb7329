package scheduler

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// generic schedules service and batch jobs: a number of allocations on any suitable nodes.
type generic struct {
	base
	batch   bool
	created map[int64]string // follow-up evaluations by WaitUntil
}

// Process processes the evaluation.
func (g *generic) Process(ctx context.Context, eval *nomad.Evaluation) error {
	attempts := maxServiceAttempts
	if g.batch {
		attempts = maxBatchAttempts
	}
	return g.run(ctx, eval, attempts, g.attempt)
}

// attempt makes one plan from the latest state and submits it.
func (g *generic) attempt(ctx context.Context) (done, progress bool, err error) {
	c, req := g.view()
	result := reconcile.Generic(req)
	g.deployment = followed(result, req)
	if err := g.followups(ctx, result); err != nil {
		return false, false, err
	}
	d := newDraft(&g.base, c)
	d.adopt(result, &g.base)
	for i := range result.Place {
		g.queued[result.Place[i].Group.Name]++
	}
	if len(result.Place) > 0 {
		g.place(d, result)
	}
	return g.submit(ctx, d)
}

// followed returns the ID of the deployment that clients monitor after the evaluation: the running
// one, or the failed one of this version of the job.
func followed(r *reconcile.Result, req *reconcile.Request) string {
	d := r.Deployment
	if d == nil {
		d = req.Deployment
		if d == nil || d.Status != nomad.DeploymentStatusFailed || req.Job.Stopped() ||
			d.JobCreateIndex != req.Job.CreateIndex || d.JobVersion != req.Job.Version {
			return ""
		}
	}
	return d.ID
}

// followups creates the evaluations that the allocations of the plan refer to. A later attempt
// reuses those of the first.
func (g *generic) followups(ctx context.Context, result *reconcile.Result) error {
	for _, e := range result.Followups {
		at := e.WaitUntil.UnixNano()
		id, exists := g.created[at]
		if !exists {
			if err := g.planner.CreateEval(ctx, e); err != nil {
				return fmt.Errorf("create follow-up evaluation: %w", err)
			}
			id = e.ID
			g.created[at] = id
		}
		if g.nextEval == "" {
			g.nextEval = id
		}
		for i := range result.Delay {
			if result.Delay[i].EvalID == e.ID {
				result.Delay[i].EvalID = id
			}
		}
	}
	return nil
}

// place finds nodes for all placements. After the first failure of a version of a group its other placements are
// only counted, unless the group has per_alloc volumes. An update still tries its own node, which its stop frees: what
// a group lacks does not keep the others from the new version.
func (g *generic) place(d *draft, result *reconcile.Result) {
	stacks := map[*nomad.Job]*stack{nil: newStack(&g.base, d.cluster)}
	short := map[versionOfGroup]bool{}
	var waiting []*reconcile.Placement
	for i := range result.Place {
		p := &result.Place[i]
		version := versionOfGroup{p.Job, p.Group.Name}
		find := g.search
		if short[version] && !g.eligibility.Differs(p.Group.Name) {
			if d.cluster.freed(p) == nil {
				g.failed[p.Group.Name].CoalescedFailures++
				d.notPlaced(p)
				if waits(p) {
					waiting = append(waiting, p)
				}
				continue
			}
			find = g.searchFreed
		}
		if p.StopPrevious != "" {
			d.stop(p.Previous, p.StopPrevious, "")
		}
		prev := d.yields(p)
		s := g.stackOf(stacks, d.cluster, p.Job)
		o, m := find(s, p)
		if o, m = g.granted(d.cluster, o, m); o == nil {
			short[version] = true
			g.awaits(s, p.Group)
			if before := g.failed[p.Group.Name]; before != nil {
				before.CoalescedFailures++
			} else {
				g.failed[p.Group.Name] = m
			}
			d.keep(p, prev)
			d.notPlaced(p)
			if waits(p) {
				waiting = append(waiting, p)
			}
			continue
		}
		d.placeFor(g.build(p, o, m, result.Deployment), prev, o.victims)
	}
	g.swap(d, waiting, func(p *reconcile.Placement) (*option, *nomad.AllocMetric) {
		return g.search(g.stackOf(stacks, d.cluster, p.Job), p)
	})
}

// versionOfGroup is a group of an older version of the job, or of the current version if job is nil.
type versionOfGroup struct {
	job   *nomad.Job
	group string
}

// stackOf returns the stack for a version of the job. It makes those of older versions on first use.
func (b *base) stackOf(stacks map[*nomad.Job]*stack, c *cluster, job *nomad.Job) *stack {
	s := stacks[job]
	if s == nil {
		s = newStack(b, c.ofVersion(job))
		s.eligibility = feasible.NewEligibility(job, b.rules())
		stacks[job] = s
	}
	return s
}

// search tries the preferred node of the placement first.
func (g *generic) search(s *stack, p *reconcile.Placement) (*option, *nomad.AllocMetric) {
	if n := s.cluster.preferred(p); n != nil {
		if o, m := s.searchOn(n, p, avoid(p)); o != nil {
			return o, m
		}
	}
	return s.search(p, avoid(p))
}

// searchFreed tries only the node that the placement frees.
func (*generic) searchFreed(s *stack, p *reconcile.Placement) (*option, *nomad.AllocMetric) {
	return s.searchOn(s.cluster.freed(p), p, avoid(p))
}

// avoid returns the nodes on which a rescheduled allocation failed, or the node that a moved allocation leaves.
func avoid(p *reconcile.Placement) map[string]bool {
	switch {
	case p.Previous == nil:
		return nil
	case p.Reschedule == nil && p.Previous.DesiredTransition.TargetNode != "":
		return map[string]bool{p.Previous.NodeID: true}
	case p.Reschedule == nil:
		return nil
	}
	out := map[string]bool{p.Previous.NodeID: true}
	if t := p.Previous.RescheduleTracker; t != nil {
		for _, e := range t.Events {
			out[e.PrevNodeID] = true
		}
	}
	return out
}
