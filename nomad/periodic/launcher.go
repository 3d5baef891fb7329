// Package periodic launches the children of periodic jobs at the times of their cron expressions.
//
//	           ┌───── a launch or a job changes, or one minute passes ─────┐
//	           ▼                                                           │
//	read the jobs and their last launches ──next is later──▶ wait until the next launch
//	           ▲     └──next has passed──▶ launch, or skip ──┐
//	           └─────────────────────────────────────────────┘
//
// A launch registers a copy of the job, with the ID <job>/periodic-<seconds>, and its evaluation, in one
// log entry. The same entry stores the time of the launch in state. The next launch is the first time
// of the cron expressions after the last launch, and after the registration of the job's version.
//
// A new leader needs no other data. If one launch was missed while no leader ran,
// the new leader launches it. If several were missed, it launches once, with the current time. A
// launch cannot happen twice, because the entry is rejected if the child already exists.
//
// A launch passes the rules of admission of its time, with the rights of the job's registration. One that is refused is
// logged and skipped, and a failed evaluation of the job has the reason.
//
// With prohibit_overlap, a launch is skipped while an earlier child is not dead. Skipped launches are
// in the memory of the leader only: after a change of leaders, a skipped launch counts as missed.
//
// The launcher runs on the leader only. Its one goroutine waits on watches of state and on a
// timer. Due launches run in up to maxParallel goroutines, so that Raft can write many at once.
package periodic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	// maxParallel is the maximum number of launches that wait for Raft at once.
	maxParallel = 128
	// retryAfter is the delay after a failed write.
	retryAfter = time.Second
	// maxWait limits the wait for the next launch, because the clock of the host may be set.
	maxWait = time.Minute
)

// Config of a Launcher. All fields are required.
type Config struct {
	Store func() *state.Store // the current store: a restore replaces it
	Raft  consensus.Log
	Log   *slog.Logger
	// Admission admits the children.
	Admission *admission.Admitter
}

// Launcher launches the children of periodic jobs.
type Launcher struct{ cfg Config }

// New returns a Launcher.
func New(cfg Config) *Launcher { return &Launcher{cfg: cfg} }

// Run launches the children that are due until ctx ends.
func (l *Launcher) Run(ctx context.Context) error {
	plans := agenda{}
	for ctx.Err() == nil {
		store := l.cfg.Store()
		ws := memdb.NewWatchSet()
		ws.Add(store.Abandoned())
		now := time.Now()
		snap := store.Snapshot()
		due, next := plans.read(snap, ws, now, l.cfg.Log)
		if len(due) == 0 {
			state.Wait(ctx, ws, now.Add(min(maxWait, next.Sub(now))))
			continue
		}
		if err := l.launchAll(ctx, snap, due, now); err != nil && ctx.Err() == nil {
			l.cfg.Log.Warn("launch periodic jobs", "err", err)
			state.Wait(ctx, memdb.NewWatchSet(), time.Now().Add(retryAfter))
		}
	}
	return ctx.Err()
}

// launchAll launches or skips everything that is due. The error is that of a write that failed
// without a decision; the launch is still due.
func (l *Launcher) launchAll(ctx context.Context, snap *state.Snapshot, due []*plan, now time.Time) error {
	var all sync.WaitGroup
	slots := make(chan struct{}, maxParallel)
	errs := make([]error, len(due))
	for i, p := range due {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = l.launchOrSkip(ctx, snap, p, now)
		})
	}
	all.Wait()
	return firstOf(errs)
}

// firstOf returns the first error. The others usually have the same cause.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// launchOrSkip launches or skips one launch that is due. It then counts as considered.
func (l *Launcher) launchOrSkip(ctx context.Context, snap *state.Snapshot, p *plan, now time.Time) error {
	at := p.launchTime(now)
	if child := overlap(snap, p.job); p.job.Periodic.ProhibitOverlap && child != "" {
		l.cfg.Log.Debug("launch of a periodic job skipped: an earlier launch is not dead", "job", p.job.ID,
			"namespace", p.job.Namespace, "child", child)
		p.considered = at
		return nil
	}
	_, _, err := l.launch(ctx, occasion{snap, p.job, at, admission.Author(p.job)})
	var refused *refusal
	switch {
	case err == nil:
	case errors.As(err, &refused):
		l.cfg.Log.Warn("launch a periodic job", "job", p.job.ID, "namespace", p.job.Namespace, "err", err)
		if !refused.ofRules {
			break
		}
		if err := l.record(ctx, p.job, err); err != nil {
			return err
		}
	default:
		return err
	}
	p.considered = at
	return nil
}

// maxReason is the maximum number of bytes of a refusal in an evaluation.
const maxReason = 1000

// record stores a failed evaluation of the job with the reason of a refused launch.
func (l *Launcher) record(ctx context.Context, job *nomad.Job, reason error) error {
	eval := nomad.NewEval(job, nomad.EvalTriggerPeriodicJob, time.Now())
	eval.Status, eval.StatusDescription = nomad.EvalStatusFailed, untrusted.Shorten(reason.Error(), maxReason)
	_, err := l.cfg.Raft.Apply(ctx, message.EvalUpdateRequestType, &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{eval}})
	if err != nil {
		return fmt.Errorf("record the refused launch of job %q: %w", job.ID, err)
	}
	return nil
}

// overlap returns the ID of a child of the job that is not dead, or "".
func overlap(snap *state.Snapshot, job *nomad.Job) string {
	for child := range snap.JobChildren(nil, job.Namespace, job.ID) {
		if child.Status != nomad.JobStatusDead {
			return child.ID
		}
	}
	return ""
}
