package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-version"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// system schedules system and sysbatch jobs: one allocation on every feasible node.
type system struct {
	base
	sysbatch bool
}

// Process processes the evaluation.
func (s *system) Process(ctx context.Context, eval *nomad.Evaluation) error {
	attempts := maxServiceAttempts
	if s.sysbatch {
		attempts = maxBatchAttempts
	}
	return s.run(ctx, eval, attempts, s.attempt)
}

// attempt makes one plan from the latest state and submits it.
func (s *system) attempt(ctx context.Context) (done, progress bool, err error) {
	c, req := s.view()
	req.SystemDeployments = !s.sysbatch && deploysSystem(s.job, s.snap)
	nodes := slices.SortedFunc(slices.Values(c.ready), func(a, b *nomad.Node) int { return cmp.Compare(a.ID, b.ID) })
	result := reconcile.System(req, nodes)
	d := newDraft(&s.base, c)
	d.adopt(result, &s.base)
	if len(result.Place) > 0 {
		s.place(d, req, result)
	}
	d.plan.Deployment = sized(result)
	s.deployment = followed(result, req)
	if result.Rolling && !s.eval.AnnotatePlan && s.nextEval == "" {
		next := s.rolling(s.stagger())
		if err := s.planner.CreateEval(ctx, next); err != nil {
			return false, false, fmt.Errorf("create evaluation of the next step: %w", err)
		}
		s.nextEval = next.ID
	}
	return s.submit(ctx, d)
}

// stagger returns the longest stagger of the groups.
func (s *system) stagger() time.Duration {
	var wait time.Duration
	for _, tg := range s.job.TaskGroups {
		if u := reconcile.Stagger(s.job, tg); u != nil {
			wait = max(wait, u.Stagger)
		}
	}
	return wait
}

// place tries each placement on its node. An infeasible node is not a failure, unless no node is
// feasible: then the metric shows the reasons. A node whose volumes are in use is a failure: the blocked evaluation
// waits for them.
func (s *system) place(d *draft, req *reconcile.Request, result *reconcile.Result) {
	stacks := map[*nomad.Job]*stack{nil: newStack(&s.base, d.cluster)}
	unfit := map[string]*nomad.AllocMetric{}
	search := func(p *reconcile.Placement) (*option, *nomad.AllocMetric) {
		return s.stackOf(stacks, d.cluster, p.Job).searchOn(d.cluster.lookup(p.Node), p, nil)
	}
	infeasible := func(p *reconcile.Placement, m *nomad.AllocMetric) bool {
		return m.NodesFiltered > 0 && !s.stackOf(stacks, d.cluster, p.Job).volumesInUse(p.Group, d.cluster.lookup(p.Node))
	}
	var waiting []*reconcile.Placement
	for i := range result.Place {
		p := &result.Place[i]
		if p.StopPrevious != "" {
			d.stop(p.Previous, p.StopPrevious, "")
		}
		prev := d.yields(p)
		o, m := search(p)
		o, m = s.granted(d.cluster, o, m)
		if o != nil {
			s.queued[p.Group.Name]++
			d.placeFor(s.build(p, o, m, result.Deployment), prev, o.victims)
			continue
		}
		unfits := infeasible(p, m)
		d.keep(p, prev)
		if unfits {
			unfit[p.Group.Name] = merge(unfit[p.Group.Name], m)
			withdraw(result, p)
			continue
		}
		s.awaits(s.stackOf(stacks, d.cluster, p.Job), p.Group)
		s.queued[p.Group.Name]++
		if known := s.failed[p.Group.Name]; known != nil {
			known.CoalescedFailures++
		}
		s.failed[p.Group.Name] = merge(s.failed[p.Group.Name], m)
		if waits(p) {
			waiting = append(waiting, p)
		}
	}
	s.swap(d, waiting, search)
	for group, m := range unfit {
		if s.failed[group] == nil && !runs(req, d, group) {
			s.failed[group] = m
		}
	}
}

// withdraw removes the placement on an infeasible node from the annotations and from the deployment.
func withdraw(r *reconcile.Result, p *reconcile.Placement) {
	switch u := r.Desired[p.Group.Name]; {
	case p.Canary:
		u.Canary--
	case p.Destructive:
		u.DestructiveUpdate--
	default:
		u.Place--
	}
	r.Totals[p.Group.Name]--
	if r.Created == nil || !p.Canary {
		return
	}
	if g := r.Created.TaskGroups[p.Group.Name]; g != nil && g.DesiredCanaries > 0 {
		g.DesiredCanaries--
	}
}

// runs reports whether the group has an allocation or a placement.
func runs(req *reconcile.Request, d *draft, group string) bool {
	for _, a := range req.Allocs {
		if a.TaskGroup == group && !a.TerminalStatus() {
			return true
		}
	}
	for _, list := range d.plan.NodeAllocation {
		for _, a := range list {
			if a.TaskGroup == group {
				return true
			}
		}
	}
	return false
}

// oldestDeploying is the first version of clients that report the health of system allocations.
var oldestDeploying = version.Must(version.NewVersion("1.11.0"))

// deploysSystem reports whether a system job has deployments: one of its groups has an update block with a
// max_parallel, and all clients that are not down have a version that supports it.
func deploysSystem(job *nomad.Job, snap State) bool {
	if job.Stopped() || !rollsAny(job) {
		return false
	}
	checked := map[string]bool{} // thousands of nodes share a few versions
	for n := range snap.Nodes(nil) {
		text := n.Attributes["nomad.version"]
		if n.TerminalStatus() || checked[text] {
			continue
		}
		v, err := untrusted.Version(text)
		if err != nil || v.Core().LessThan(oldestDeploying) {
			return false
		}
		checked[text] = true
	}
	return true
}

func rollsAny(job *nomad.Job) bool {
	for _, tg := range job.TaskGroups {
		if tg.Update != nil && tg.Update.MaxParallel > 0 {
			return true
		}
	}
	return false
}

// sized returns the deployment that the plan stores, or nil. A new one gets the number of feasible nodes of each group.
// An existing one is stored again if this number changed, because nodes came or went. While no node is left, it keeps
// the number, so that it is not complete.
func sized(r *reconcile.Result) *nomad.Deployment {
	if r.Created != nil {
		for name, g := range r.Created.TaskGroups {
			if g.DesiredTotal = r.Totals[name]; g.DesiredTotal == 0 {
				delete(r.Created.TaskGroups, name)
			}
		}
		if len(r.Created.TaskGroups) == 0 { // no node is feasible
			r.Created, r.Deployment = nil, nil
			return nil
		}
		r.Created.StatusDescription = r.Created.RunningDescription()
		return r.Created
	}
	if r.Deployment == nil {
		return nil
	}
	out, changed := *r.Deployment, false
	out.TaskGroups = maps.Clone(out.TaskGroups)
	for name, g := range out.TaskGroups {
		if total, ok := r.Totals[name]; ok && total > 0 && total != g.DesiredTotal {
			resized := *g
			resized.DesiredTotal = total
			out.TaskGroups[name], changed = &resized, true
		}
	}
	if !changed {
		return nil
	}
	return &out
}

// onEveryNode reports whether evaluations of the type are of jobs that run on every feasible node.
func onEveryNode(evalType string) bool {
	return evalType == nomad.JobTypeSystem || evalType == nomad.JobTypeSysBatch
}
