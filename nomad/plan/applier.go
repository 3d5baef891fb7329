// Package plan verifies and commits plans on the leader. Schedulers plan concurrently on snapshots,
// without locks, so that two plans may use the same capacity. The Applier takes the plans one after
// another, removes what no longer fits, signs the default identities of new allocations, and
// commits the rest.
//
//	queued ──▶ checked against state + commit ahead ─▶ signed
//	                                                   │ previous plan committed
//	                                                   ▼
//	          answered ◀── applied ◀── committing (the next plan is checked in parallel)
//
// Plans are queued by priority, then by arrival. If a plan does not fit on a node, or exceeds the quota
// of the namespace, the result omits that node with its allocations. RefreshIndex is then the index at
// which a scheduler sees the reason. An all-at-once plan is rejected in full if a node is omitted.
//
// One plan is being committed at a time. The next one is checked against the state with that plan
// added, and checked again if the commit fails. No committed plan depends on one that is not in the
// log.
//
// A node for which plans are rejected repeatedly may become ineligible: see Rejections.
//
// A change of nodes that plans must observe, such as a drain, is written by Between. No plan is then
// between its check and its commit. Withhold does the same for a volume that is deleted or updated.
//
// The Applier runs on the leader only. It has one goroutine, one more for the plan that is being
// committed, and short-lived ones that distribute signatures and checks over the cores.
package plan

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	// catchUp bounds the wait for the state at the plan's index.
	catchUp = 5 * time.Second
	// signWithin bounds the wait for a signing key.
	signWithin = 10 * time.Second
)

// Minter builds and signs the claims of workload identities.
type Minter interface {
	Workload(s identity.Subject, now time.Time) *idtoken.Claims
	MintAll(ctx context.Context, claims []*idtoken.Claims) ([]idtoken.Token, error)
}

// Evals reports whether a worker still holds the evaluation of a plan. The timeout of the worker is
// paused while the plan waits in the queue.
type Evals interface {
	OutstandingReset(evalID, token string) error
	PauseNack(evalID, token string) error
	ResumeNack(evalID, token string)
}

// Config of an Applier.
type Config struct {
	Store  func() *state.Store // the current store: a restore replaces it
	Raft   consensus.Log
	Minter Minter
	Evals  Evals
	// Kinds are the built-in kinds of drivers, for the isolation levels that tokens claim.
	Kinds kinds.Table
	// Rejections makes nodes ineligible for which plans are rejected repeatedly. Default: disabled.
	Rejections Rejections
	Log        *slog.Logger
}

// Applier checks and commits plans.
type Applier struct {
	cfg        Config
	queue      *queue
	rejections *tracker       // nil if disabled
	pending    sync.RWMutex   // held for reading from the check of a plan until the end of its commit
	withheld   map[string]int // volumes, see Withhold; guarded by pending
}

// New returns an Applier. It rejects plans until Run is called.
func New(cfg Config) *Applier {
	return &Applier{cfg: cfg, queue: newQueue(), rejections: newTracker(cfg.Rejections), withheld: map[string]int{}}
}

// Submit submits a plan and returns what was committed. The plan is not modified, and the caller
// must not modify it before Submit returns.
func (a *Applier) Submit(ctx context.Context, plan *nomad.Plan) (*nomad.PlanResult, error) {
	s := &submission{ctx: ctx, plan: plan, done: make(chan outcome, 1)}
	if !a.queue.accepts() {
		return nil, apierror.ErrNoLeader
	}
	if err := a.cfg.Evals.PauseNack(plan.EvalID, plan.EvalToken); err != nil {
		return nil, fmt.Errorf("plan rejected: %w", err)
	}
	defer a.cfg.Evals.ResumeNack(plan.EvalID, plan.EvalToken)
	if err := a.queue.push(s); err != nil {
		return nil, err
	}
	select {
	case o := <-s.done:
		return o.result, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Queued returns the number of waiting plans.
func (a *Applier) Queued() int { return a.queue.len() }

// Between calls change while no plan is between its check and its commit. Later plans are checked
// against what it wrote.
func (a *Applier) Between(change func() error) error {
	a.pending.Lock()
	defer a.pending.Unlock()
	return change()
}

// Withhold makes a volume unusable for plans until release is called: a host volume by its ID, or a CSI volume by
// csi.Resource. When it returns, the state contains every allocation that an earlier plan placed on the volume, and no
// later plan places one.
//
// The mark is in the memory of the leader, not in the log: servers of earlier builds ignore the state of a volume in
// an entry, and a mark in the log would outlive a leader that fails. A new leader has no mark. An allocation that it
// places reaches the node before the operation on the volume begins, which the node then refuses, or after it has begun,
// and the node then refuses the mount.
func (a *Applier) Withhold(volume string) (release func()) {
	a.withhold(volume, 1)
	return func() { a.withhold(volume, -1) }
}

func (a *Applier) withhold(volume string, n int) {
	a.pending.Lock()
	defer a.pending.Unlock()
	if a.withheld[volume] += n; a.withheld[volume] == 0 {
		delete(a.withheld, volume)
	}
}

// Run applies plans until ctx ends. Waiting plans then fail with apierror.ErrNoLeader.
func (a *Applier) Run(ctx context.Context) error {
	a.queue.open()
	defer a.queue.close()
	var last *commit
	for {
		s, err := a.queue.pop(ctx)
		if err != nil {
			last.wait()
			return err
		}
		if last.ended() {
			last = nil // state contains it and may have advanced
		}
		last = a.apply(ctx, s, last)
	}
}

// apply checks one plan while the last one is being committed, and starts its commit. It returns
// the running commit, or nil.
func (a *Applier) apply(ctx context.Context, s *submission, last *commit) (next *commit) {
	a.pending.RLock()
	defer func() {
		if next == nil {
			a.pending.RUnlock() // otherwise the commit does
		}
	}()
	c, err := a.check(ctx, s, last)
	waited := time.Now()
	through := last.wait()
	measure("outstanding_apply", waited)
	if !through && err == nil {
		c, err = a.check(ctx, s, nil) // it was checked on top of a failed commit
	}
	if err != nil {
		s.done <- outcome{err: err}
		return nil
	}
	c.result.RefreshIndex = c.refresh(last)
	c.reject(a.rejections, a.cfg.Log)
	if c.empty() {
		s.done <- outcome{result: c.result}
		return nil
	}
	return a.commit(ctx, s, c)
}

// check decides which parts of a plan are possible after the last commit.
func (a *Applier) check(ctx context.Context, s *submission, last *commit) (*candidate, error) {
	plan := s.plan
	if err := s.ctx.Err(); err != nil {
		return nil, err // the submitter no longer waits
	}
	if err := a.cfg.Evals.OutstandingReset(plan.EvalID, plan.EvalToken); err != nil {
		return nil, fmt.Errorf("plan rejected: %w", err)
	}
	wait, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	begun := time.Now()
	snap, err := a.cfg.Store().SnapshotAfter(wait, plan.SnapshotIndex)
	measure("wait_for_index", begun)
	if err != nil {
		return nil, err
	}
	begun = time.Now()
	v := view{snap: snap, ahead: last.overlay(), job: plan.Job, withheld: a.withheld}
	c := &candidate{plan: plan, job: plan.Job, now: time.Now()}
	if c.job == nil && plan.JobInfo != nil {
		c.job = snap.Job(nil, plan.JobInfo.Namespace, plan.JobInfo.ID)
		v.job = c.job
		// The scheduler planned for an earlier version of the job.
		c.stale = c.job != nil && c.job.JobModifyIndex > plan.SnapshotIndex
	}
	c.view = v
	if c.stale = c.stale || v.stale(plan); c.stale {
		c.result = &nomad.PlanResult{}
		return c, nil
	}
	if err := c.checkJob(); err != nil {
		return nil, err
	}
	if c.result, c.reasons, err = v.evaluate(plan); err != nil {
		return nil, err
	}
	c.keepQuota()
	if len(c.overQuota) > 0 {
		a.cfg.Log.Debug("plan exceeds quota", "eval", plan.EvalID, "nodes", c.overQuota)
	}
	measure("evaluate", begun)
	begun = time.Now()
	err = a.sign(ctx, c)
	measure("sign_identities", begun)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// commit is a plan that is being committed.
type commit struct {
	over  *overlay
	done  chan struct{}
	index uint64 // set when done
	err   error  // set when done
}

// wait waits for the end of the commit and reports whether it succeeded. A nil commit counts as
// succeeded.
func (c *commit) wait() bool {
	if c == nil {
		return true
	}
	<-c.done
	return c.err == nil
}

// ended reports whether the commit has ended.
func (c *commit) ended() bool {
	if c == nil {
		return true
	}
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// overlay returns the changes of the commit.
func (c *commit) overlay() *overlay {
	if c == nil {
		return nil
	}
	return c.over
}

// commit starts the commit of c, and answers the submission and unlocks pending when it ends.
func (a *Applier) commit(ctx context.Context, s *submission, c *candidate) *commit {
	begun := time.Now()
	out := &commit{over: newOverlay(s.plan.EvalID, c.job, c.result), done: make(chan struct{})}
	measure("optimistic_apply", begun)
	req := c.request()
	go func() {
		defer a.pending.RUnlock()
		defer close(out.done)
		defer measure("apply", time.Now())
		index, err := a.cfg.Raft.Apply(ctx, message.ApplyPlanResultsRequestType, req)
		if err != nil {
			out.err = fmt.Errorf("commit plan of evaluation %s: %w", s.plan.EvalID, err)
			s.done <- outcome{err: out.err}
			return
		}
		out.index = index
		c.result.AllocIndex = index
		if c.result.RefreshIndex != 0 {
			c.result.RefreshIndex = max(c.result.RefreshIndex, index)
		}
		s.done <- outcome{result: c.result}
	}()
	return out
}

// measure adds the duration of a step to its metric.
func measure(step string, begun time.Time) {
	metrics.MeasureSince([]string{"nomad", "plan", step}, begun)
}
