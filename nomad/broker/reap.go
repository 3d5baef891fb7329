package broker

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

const (
	// followUpMin and followUpMax bound the delay before a new evaluation retries a failed one.
	followUpMin = time.Minute
	followUpMax = 6 * time.Minute
	// reapBatch is the maximum number of evaluations in one write.
	reapBatch = 728
	// reapRetry is the delay after a failed write.
	reapRetry = time.Second
)

// ReaperConfig configures a Reaper. All fields are required.
type ReaperConfig struct {
	Broker  *Broker
	Blocked *Blocked
	// Write applies evaluations through the Raft log.
	Write func(ctx context.Context, evals []*nomad.Evaluation) error
	// JobExists reports whether state has the job.
	JobExists func(namespace, id string) bool
	Log       *slog.Logger
}

// Reaper writes the final status of evaluations that no worker will process. A failed one gets a delayed
// follow-up. One that a newer evaluation of the job replaced is canceled. The Reaper runs on the leader.
type Reaper struct{ cfg ReaperConfig }

// NewReaper returns a Reaper.
func NewReaper(cfg ReaperConfig) *Reaper { return &Reaper{cfg} }

// Run reaps until ctx ends.
func (r *Reaper) Run(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.reapReplaced(ctx)
	}()
	r.reapFailed(ctx)
	<-done
	return ctx.Err()
}

func (r *Reaper) reapFailed(ctx context.Context) {
	for ctx.Err() == nil {
		eval, token, err := r.cfg.Broker.Dequeue(ctx, []string{FailedQueue})
		if err != nil {
			backoff.Sleep(ctx, reapRetry) // the loop ends with ctx
			continue
		}
		if err := r.fail(ctx, eval); err != nil {
			r.cfg.Log.Warn("write failed evaluation", "eval", eval.ID, "err", err)
			backoff.Sleep(ctx, reapRetry) // the loop ends with ctx
			// An error means that the nack timer was faster.
			_ = r.cfg.Broker.Nack(eval.ID, token)
			continue
		}
		_ = r.cfg.Broker.Ack(eval.ID, token) // as above
	}
}

// fail writes eval as failed, together with a follow-up evaluation if the job still exists.
func (r *Reaper) fail(ctx context.Context, eval *nomad.Evaluation) error {
	if eval.Type == nomad.JobTypeCore {
		return nil // in the broker only: its timer creates another one
	}
	now := time.Now()
	failed := codec.Copy(eval)
	failed.Status = nomad.EvalStatusFailed
	failed.StatusDescription = fmt.Sprintf("evaluation reached delivery limit (%d)", r.cfg.Broker.cfg.DeliveryLimit)
	failed.ModifyTime = now.UnixNano()
	if !r.cfg.JobExists(eval.Namespace, eval.JobID) {
		return r.cfg.Write(ctx, []*nomad.Evaluation{failed})
	}
	next := followUp(eval, now)
	failed.NextEval = next.ID
	return r.cfg.Write(ctx, []*nomad.Evaluation{failed, next})
}

// followUp returns the evaluation that retries eval after a delay. WaitUntil keeps the time if the
// leader changes. Wait is for readers that do not use WaitUntil.
func followUp(eval *nomad.Evaluation, now time.Time) *nomad.Evaluation {
	wait := followUpMin + rand.N(followUpMax-followUpMin)
	next := eval.Next(nomad.NewID(), nomad.EvalTriggerFailedFollowUp, now)
	next.NodeID, next.Wait, next.WaitUntil = eval.NodeID, wait, now.Add(wait)
	return next
}

func (r *Reaper) reapReplaced(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.cfg.Broker.canceled:
		case <-r.cfg.Blocked.duplicate:
		}
		r.cancel(ctx, r.cfg.Broker.takeCancelable(), func(*nomad.Evaluation) string {
			return "canceled after more recent eval was processed"
		})
		r.cancel(ctx, r.cfg.Blocked.takeDuplicates(), func(e *nomad.Evaluation) string {
			return fmt.Sprintf("existing blocked evaluation exists for job %q", e.JobID)
		})
	}
}

// cancel writes evals as canceled, in batches, and retries until each write succeeds. why returns the
// description of each.
func (r *Reaper) cancel(ctx context.Context, evals []*nomad.Evaluation, why func(*nomad.Evaluation) string) {
	for len(evals) > 0 && ctx.Err() == nil {
		n := min(len(evals), reapBatch)
		batch := make([]*nomad.Evaluation, n)
		for i, e := range evals[:n] {
			batch[i] = codec.Copy(e)
			batch[i].Status = nomad.EvalStatusCancelled
			batch[i].StatusDescription = why(e)
			batch[i].ModifyTime = time.Now().UnixNano()
		}
		if err := r.cfg.Write(ctx, batch); err != nil {
			r.cfg.Log.Warn("write canceled evaluations", "count", n, "err", err)
			backoff.Sleep(ctx, reapRetry) // the loop ends with ctx
			continue
		}
		evals = evals[n:]
	}
}
