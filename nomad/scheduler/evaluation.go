package scheduler

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// Limits on consecutive attempts in which no part of the plan is committed.
const (
	maxServiceAttempts = 5
	maxBatchAttempts   = 2
)

// base holds what all schedulers share: the state, the planner, the settings, and the results of
// the evaluation so far.
type base struct {
	log     *slog.Logger
	snap    State
	planner Planner
	now     func() time.Time
	rng     *rand.Rand
	kinds   kinds.Table
	schemas *schema.Set // nil: the config blocks of tasks are not checked

	eval *nomad.Evaluation
	// The results of the latest attempt.
	job          *nomad.Job
	eligibility  *feasible.Eligibility
	failed       map[string]*nomad.AllocMetric
	queued       map[string]int
	quotaReached string          // the quota that is exhausted, "" when none is
	waits        map[string]bool // see nomad.Evaluation.MissingNonNodeResources
	deployment   string
	nextEval     string
	older        olderForm
	annotations  *nomad.PlanAnnotations
}

// newID returns a version 4 UUID drawn from the scheduler's seed.
func (b *base) newID() string {
	var raw [16]byte
	for i := 0; i < 16; i += 8 {
		v := b.rng.Uint64()
		for j := range 8 {
			raw[i+j] = byte(v >> (8 * j))
		}
	}
	raw[6] = raw[6]&0x0f | 0x40
	raw[8] = raw[8]&0x3f | 0x80
	var out [36]byte
	hex.Encode(out[:8], raw[:4])
	hex.Encode(out[9:13], raw[4:6])
	hex.Encode(out[14:18], raw[6:8])
	hex.Encode(out[19:23], raw[8:10])
	hex.Encode(out[24:], raw[10:])
	out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	return string(out[:])
}

// attempt makes and submits one plan. done is false if parts were rejected; progress reports
// whether other parts were committed.
type attempt func(ctx context.Context) (done, progress bool, err error)

// run repeats attempts until a plan is committed in full, and reports the outcome of the evaluation
// to the planner.
func (b *base) run(ctx context.Context, eval *nomad.Evaluation, attempts int, try attempt) error {
	b.eval = eval
	if !handles(eval.TriggeredBy) {
		return b.planner.FinishEval(ctx, b.unhandled())
	}
	for remaining := attempts; remaining > 0; remaining-- {
		done, progress, err := try(ctx)
		if err != nil {
			return fmt.Errorf("evaluation %s of job %s: %w", eval.ID, eval.JobID, err)
		}
		if done {
			return b.complete(ctx)
		}
		if progress {
			remaining = attempts + 1
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return b.giveUp(ctx, attempts)
}

// view prepares one attempt from the latest state: the job, its allocations and the cluster.
func (b *base) view() (*cluster, *reconcile.Request) {
	b.job = b.snap.Job(nil, b.eval.Namespace, b.eval.JobID)
	b.failed, b.queued = map[string]*nomad.AllocMetric{}, map[string]int{}
	b.eligibility, b.quotaReached, b.waits = nil, "", map[string]bool{}
	if !b.job.Stopped() {
		b.eligibility = feasible.NewEligibility(b.job, b.rules())
		for _, tg := range b.job.TaskGroups {
			b.queued[tg.Name] = 0
		}
	}
	c := newCluster(b.snap, b.job, b.eval, b.rng)
	req := &reconcile.Request{
		Eval:       b.eval,
		Job:        b.job,
		Node:       c.lookup,
		Deployment: b.snap.LatestDeployment(nil, b.eval.Namespace, b.eval.JobID),
		Now:        b.now(),
		NewID:      b.newID,
		Evals:      func() iter.Seq[*nomad.Evaluation] { return b.snap.EvalsByJob(nil, b.eval.Namespace, b.eval.JobID) },
		Suits:      func(a *nomad.Allocation, tg *nomad.TaskGroup) bool { return c.suits(b.eligibility, a, tg) },
	}
	for a := range b.snap.AllocsByJob(nil, b.eval.Namespace, b.eval.JobID) {
		if !ofPurged(a, b.job) {
			req.Allocs = append(req.Allocs, a)
		}
	}
	c.tally.load(req.Allocs)
	return c, req
}

// ofPurged reports whether an allocation ended that belongs to an earlier job with the same ID, which was purged.
// Neither its failure nor its completion counts for the current job.
func ofPurged(a *nomad.Allocation, job *nomad.Job) bool {
	return job != nil && a.Job != nil && a.Job.CreateIndex != job.CreateIndex && a.ClientTerminalStatus()
}

// granted returns the option that a search found, or nil if the option exceeds the quota.
func (b *base) granted(c *cluster, o *option, m *nomad.AllocMetric) (*option, *nomad.AllocMetric) {
	if o != nil && c.quota.exceeded(o, m) {
		b.quotaReached = c.quota.name
		return nil, m
	}
	return o, m
}

// awaits records the CSI volumes for which the latest search of a stack found no node.
func (b *base) awaits(s *stack, tg *nomad.TaskGroup) {
	if search := s.group(tg).csi; search != nil {
		maps.Copy(b.waits, search.waits)
	}
}

// errNoRefresh reports that a planner rejected parts of a plan without returning a newer state.
var errNoRefresh = errors.New("plan was partially committed but no newer state was returned")

// submit submits the plan and adopts the newer state, if the planner returns one.
func (b *base) submit(ctx context.Context, d *draft) (done, progress bool, err error) {
	if d.empty() && !b.eval.AnnotatePlan {
		return true, false, nil
	}
	result, newer, err := b.planner.SubmitPlan(ctx, d.plan)
	if err != nil {
		return false, false, fmt.Errorf("submit plan: %w", err)
	}
	committed := b.count(d, result)
	if newer != nil {
		b.snap = newer
	}
	if committed == d.size() {
		return true, true, nil
	}
	if newer == nil {
		return false, false, errNoRefresh
	}
	b.log.Debug("plan partially committed", "eval", b.eval.ID, "asked", d.size(), "committed", committed)
	return false, committed > 0, nil
}

// count returns how many changes of the plan were committed, and subtracts the committed placements
// from the queued allocations.
func (b *base) count(d *draft, result *nomad.PlanResult) int {
	if result == nil {
		return 0
	}
	n := 0
	for _, list := range result.NodeUpdate {
		n += len(list)
	}
	for _, list := range result.NodePreemptions {
		n += len(list)
	}
	for _, list := range result.NodeAllocation {
		n += len(list)
		for _, a := range list {
			if d.placed[a.ID] {
				b.queued[a.TaskGroup]--
			}
		}
	}
	return n
}

// configs checks config blocks against the schemas of the state.
type configs struct {
	set  *schema.Set
	snap State
}

// rules returns what decides about nodes beside the job.
func (b *base) rules() feasible.Rules {
	out := feasible.Rules{Namespace: b.snap.Namespace(nil, b.job.Namespace), Kinds: b.kinds,
		Volumes: func(node, name string) *hostvolume.Volume { return b.snap.HostVolumeOn(nil, node, name) }}
	if b.schemas != nil {
		out.Configs = configs{b.schemas, b.snap}
	}
	return out
}

// Fault implements feasible.Configs.
func (c configs) Fault(digest string, block map[string]any) string {
	faults, _ := c.set.Faults(digest, block, func(digest string) []byte {
		if d := c.snap.DriverSchema(nil, digest); d != nil {
			return d.Spec
		}
		return nil
	})
	if len(faults) == 0 {
		return ""
	}
	return faults[0].String()
}
