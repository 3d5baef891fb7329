package scheduler

import (
	"context"
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// Doubled is a scheduler of service and batch jobs that makes each search twice: as usual, and without anything that was
// computed before. The results must be the same.
type Doubled struct {
	*generic
	t testing.TB
	// Searches counts the searches, Read the nodes whose ratings were read, and Placed those that found a node.
	Searches, Read, Placed int
}

// NewDoubled returns a Doubled for one evaluation.
func NewDoubled(t testing.TB, evalType string, snap State, planner Planner, o Options) *Doubled {
	s, err := New(evalType, snap, planner, o)
	if err != nil {
		t.Fatal(err)
	}
	return &Doubled{generic: s.(*generic), t: t}
}

// Process processes the evaluation.
func (d *Doubled) Process(ctx context.Context, eval *nomad.Evaluation) error {
	return d.run(ctx, eval, maxServiceAttempts, d.attempt)
}

// attempt is that of generic.
func (d *Doubled) attempt(ctx context.Context) (done, progress bool, err error) {
	c, req := d.view()
	result := reconcile.Generic(req)
	if err := d.followups(ctx, result); err != nil {
		return false, false, err
	}
	plan := newDraft(&d.base, c)
	plan.adopt(result, &d.base)
	stacks, others := map[*nomad.Job]*stack{nil: newStack(&d.base, c)}, map[*nomad.Job]*stack{nil: newStack(&d.base, c)}
	double := func(p *reconcile.Placement) (*option, *nomad.AllocMetric) {
		return d.double(d.stackOf(stacks, c, p.Job), d.stackOf(others, c, p.Job), p)
	}
	var waiting []*reconcile.Placement
	for i := range result.Place {
		p := &result.Place[i]
		d.queued[p.Group.Name]++
		if p.StopPrevious != "" {
			plan.stop(p.Previous, p.StopPrevious, "")
		}
		prev := plan.yields(p)
		o, m := double(p)
		if o, m = d.granted(c, o, m); o == nil {
			d.failed[p.Group.Name] = m
			plan.keep(p, prev)
			if waits(p) {
				waiting = append(waiting, p)
			}
			continue
		}
		d.Placed++
		plan.placeFor(d.build(p, o, m, result.Deployment), prev, o.victims)
	}
	d.swap(plan, waiting, double)
	return d.submit(ctx, plan)
}

// double is generic.search. It compares the search of all candidates with a plain one.
func (d *Doubled) double(s, other *stack, p *reconcile.Placement) (*option, *nomad.AllocMetric) {
	d.t.Helper()
	if n := s.cluster.preferred(p); n != nil {
		if o, m := s.searchOn(n, p, avoid(p)); o != nil {
			return o, m
		}
	}
	d.Searches++
	for _, r := range s.group(p.Group).ratings.list {
		if r.outcome != untried {
			d.Read++
		}
	}
	want, wantMetric := plain(other, p, avoid(p))
	got, metric := s.search(p, avoid(p))
	metric.AllocationTime, wantMetric.AllocationTime = 0, 0
	if !reflect.DeepEqual(metric, wantMetric) {
		d.t.Fatalf("metric of %s:\n%+v, plain\n%+v", p.Name, metric, wantMetric)
	}
	if (got == nil) != (want == nil) {
		d.t.Fatalf("option of %s: %v, plain %v", p.Name, got, want)
	}
	if got != nil && (got.node != want.node || got.scores != want.scores || len(got.victims) != len(want.victims)) {
		d.t.Fatalf("option of %s: %s %+v, plain %s %+v", p.Name, got.node.ID, got.scores, want.node.ID, want.scores)
	}
	if s.offset != other.offset {
		d.t.Fatalf("offset after %s: %d, plain %d", p.Name, s.offset, other.offset)
	}
	return got, metric
}

// plain is stack.search of all candidates, which tries and scores each node anew.
func plain(s *stack, p *reconcile.Placement, avoid map[string]bool) (*option, *nomad.AllocMetric) {
	g := s.group(p.Group)
	g.alloc, g.previous, g.views = p.Name, nil, map[string]*nodeView{}
	if p.Previous != nil && s.cluster.ends(p.Previous) {
		g.previous = p.Previous
	}
	m, nodes := s.metric(), s.cluster.ready
	var options ranking
	scored, skipped := 0, 0
	for i := range nodes {
		if scored >= g.limit {
			break
		}
		for j := range g.scorer.spreads.classes {
			g.scorer.spreads.classes[j].at = -1
		}
		m.NodesEvaluated++
		o, ok := s.try(g, nodes[(s.offset+i)%len(nodes)], avoid, m)
		if !ok {
			continue
		}
		options.add(&o)
		if o.scores.norm <= 0 && skipped < maxSkipped {
			skipped++
		} else {
			scored++
		}
	}
	if len(nodes) > 0 {
		s.offset = (s.offset + m.NodesEvaluated) % len(nodes)
	}
	best := options.best(m)
	if best == nil && m.NodesExhausted > 0 && s.preempts {
		best = s.displace(g, nodes, avoid, m)
	}
	if best == nil {
		exhausted(p.Group, m)
	}
	return best, m
}
