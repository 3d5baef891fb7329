package broker

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

const (
	// followUpMin and followUpMax bound the delay before a new evaluation retries a failed one.
	followUpMin = time.Minute
	followUpMax = 20 * time.Minute
	// reapBatch is the maximum number of evaluations in one write.
	reapBatch = 728
	// reapRetry is the delay after a failed write.
	reapRetry = time.Second
)

// Reaper writes the final status of evaluations that no worker will process: failed ones, each with
// a delayed follow-up, and those that a newer evaluation of the job replaced. It runs on the
// leader.
type Reaper struct {
	broker  *Broker
	blocked *Blocked
	write   func(ctx context.Context, evals []*nomad.Evaluation) error
	log     *slog.Logger
}

// NewReaper returns a Reaper. write applies evaluations through the Raft log.
func NewReaper(broker *Broker, blocked *Blocked, write func(context.Context, []*nomad.Evaluation) error, log *slog.Logger) *Reaper {
	return &Reaper{broker: broker, blocked: blocked, write: write, log: log}
}

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
		eval, token, err := r.broker.Dequeue(ctx, []string{FailedQueue})
		if err != nil {
			sleep(ctx, reapRetry)
			continue
		}
		if err := r.fail(ctx, eval); err != nil {
			r.log.Warn("write failed evaluation", "eval", eval.ID, "err", err)
			sleep(ctx, reapRetry)
			// An error means that the nack timer was faster.
			_ = r.broker.Nack(eval.ID, token)
			continue
		}
		_ = r.broker.Ack(eval.ID, token) // as above
	}
}

// fail writes eval as failed, together with a follow-up evaluation.
func (r *Reaper) fail(ctx context.Context, eval *nomad.Evaluation) error {
	if eval.Type == nomad.JobTypeCore {
		return nil // in the broker only: its timer creates another one
	}
	now := time.Now()
	wait := followUpMin + rand.N(followUpMax-followUpMin)
	next := &nomad.Evaluation{
		ID:             nomad.NewID(),
		Namespace:      eval.Namespace,
		Priority:       eval.Priority,
		Type:           eval.Type,
		TriggeredBy:    nomad.EvalTriggerFailedFollowUp,
		JobID:          eval.JobID,
		JobModifyIndex: eval.JobModifyIndex,
		NodeID:         eval.NodeID,
		Status:         nomad.EvalStatusPending,
		WaitUntil:      now.Add(wait),
		PreviousEval:   eval.ID,
		CreateTime:     now.UnixNano(),
		ModifyTime:     now.UnixNano(),
	}
	failed := codec.Copy(eval)
	failed.Status = nomad.EvalStatusFailed
	failed.StatusDescription = fmt.Sprintf("not completed after %d deliveries", r.broker.cfg.DeliveryLimit)
	failed.NextEval = next.ID
	failed.ModifyTime = now.UnixNano()
	return r.write(ctx, []*nomad.Evaluation{failed, next})
}

func (r *Reaper) reapReplaced(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.broker.canceled:
		case <-r.blocked.duplicate:
		}
		r.cancel(ctx, r.broker.takeCancelable(), "superseded by a newer evaluation of the job")
		r.cancel(ctx, r.blocked.takeDuplicates(), "superseded by a newer blocked evaluation of the job")
	}
}

// cancel writes evals as canceled, in batches, and retries until each write succeeds.
func (r *Reaper) cancel(ctx context.Context, evals []*nomad.Evaluation, why string) {
	for len(evals) > 0 && ctx.Err() == nil {
		n := min(len(evals), reapBatch)
		batch := make([]*nomad.Evaluation, n)
		for i, e := range evals[:n] {
			batch[i] = codec.Copy(e)
			batch[i].Status = nomad.EvalStatusCancelled
			batch[i].StatusDescription = why
			batch[i].ModifyTime = time.Now().UnixNano()
		}
		if err := r.write(ctx, batch); err != nil {
			r.log.Warn("write canceled evaluations", "count", n, "err", err)
			sleep(ctx, reapRetry)
			continue
		}
		evals = evals[n:]
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
