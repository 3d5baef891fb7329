package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// complete ends an evaluation whose plan is committed. Failed placements wait in a blocked
// evaluation: this one if it was blocked before, otherwise a new one.
func (b *base) complete(ctx context.Context) error {
	if len(b.failed) == 0 {
		return b.finish(ctx, nomad.EvalStatusComplete, "")
	}
	if b.eval.Status == nomad.EvalStatusBlocked {
		again := *b.eval
		b.describe(&again)
		again.ClassEligibility, again.EscapedComputedClass = b.classes()
		return b.planner.ReblockEval(ctx, &again)
	}
	why := "created to place remaining allocations"
	if b.quotaReached != "" {
		why = fmt.Sprintf("waiting for capacity in quota %q", b.quotaReached)
	}
	blocked := b.blocked(nomad.EvalTriggerQueuedAllocs, why)
	blocked.FailedTGAllocs = b.failed
	blocked.QueuedAllocations = b.queued
	return b.finish(ctx, nomad.EvalStatusComplete, "", blocked)
}

// giveUp ends an evaluation whose plans were rejected too often. A blocked evaluation takes over the remaining work.
func (b *base) giveUp(ctx context.Context, attempts int) error {
	why := fmt.Sprintf("maximum attempts reached (%d)", attempts)
	b.log.Warn("plans rejected", "eval", b.eval.ID, "job", b.eval.JobID, "attempts", attempts)
	blocked := b.blocked(nomad.EvalTriggerMaxPlans, "created due to placement conflicts")
	blocked.EscapedComputedClass = true // any change may help
	return b.finish(ctx, nomad.EvalStatusFailed, why, blocked)
}

// finish ends an evaluation. The blocked evaluation, if any, takes over the failed placements.
func (b *base) finish(ctx context.Context, status, why string, blocked ...*nomad.Evaluation) error {
	done := *b.eval
	b.describe(&done)
	done.Status = status
	done.StatusDescription = why
	for _, e := range blocked {
		done.BlockedEval = e.ID
	}
	if err := b.planner.FinishEval(ctx, &done, blocked...); err != nil {
		return fmt.Errorf("finish evaluation: %w", err)
	}
	return nil
}

// describe copies the results of the attempt into a copy of the evaluation.
func (b *base) describe(e *nomad.Evaluation) {
	e.FailedTGAllocs, e.QueuedAllocations = nil, nil
	if len(b.failed) > 0 {
		e.FailedTGAllocs = b.failed
	}
	if b.queued != nil {
		e.QueuedAllocations = b.queued
	}
	e.QuotaLimitReached = b.quotaReached
	e.MissingNonNodeResources = b.missing()
	e.DeploymentID = b.deployment
	e.NextEval = b.nextEval
	e.PlanAnnotations = b.annotations
	e.SnapshotIndex = b.snap.Index()
	e.ModifyTime = b.now().UnixNano()
}

// blocked returns an evaluation that waits for capacity and follows the current one.
func (b *base) blocked(trigger, why string) *nomad.Evaluation {
	e := b.follow(trigger, why)
	e.Status = nomad.EvalStatusBlocked
	e.QuotaLimitReached = b.quotaReached
	e.MissingNonNodeResources = b.missing()
	e.ClassEligibility, e.EscapedComputedClass = b.classes()
	e.SnapshotIndex = b.snap.Index()
	return e
}

// missing returns the CSI volumes that the evaluation waits for, by csi.Resource, sorted.
func (b *base) missing() []string { return slices.Sorted(maps.Keys(b.waits)) }

// rolling returns the evaluation that continues a staggered update.
func (b *base) rolling(wait time.Duration) *nomad.Evaluation {
	e := b.follow(nomad.EvalTriggerRollingUpdate, "continuing the update of the job")
	e.Wait = wait
	return e
}

func (b *base) follow(trigger, why string) *nomad.Evaluation {
	e := b.eval.Next(b.newID(), trigger, b.now())
	e.StatusDescription = why
	return e
}

// classes returns which computed node classes can unblock the evaluation, and whether the job
// escaped them.
func (b *base) classes() (map[string]bool, bool) {
	if b.eligibility == nil {
		return nil, true
	}
	return b.eligibility.Classes(), b.eligibility.Escaped()
}

// triggers are the reasons for an evaluation that the schedulers know. A newer server may have others,
// whose meaning is not known here.
var triggers = map[string]bool{
	nomad.EvalTriggerJobRegister:          true,
	nomad.EvalTriggerJobDeregister:        true,
	nomad.EvalTriggerPeriodicJob:          true,
	nomad.EvalTriggerScaling:              true,
	nomad.EvalTriggerNodeUpdate:           true,
	nomad.EvalTriggerNodeDrain:            true,
	nomad.EvalTriggerAllocStop:            true,
	nomad.EvalTriggerScheduled:            true,
	nomad.EvalTriggerRollingUpdate:        true,
	nomad.EvalTriggerDeploymentWatcher:    true,
	nomad.EvalTriggerFailedFollowUp:       true,
	nomad.EvalTriggerMaxPlans:             true,
	nomad.EvalTriggerRetryFailedAlloc:     true,
	nomad.EvalTriggerAllocReschedule:      true,
	nomad.EvalTriggerQueuedAllocs:         true,
	nomad.EvalTriggerPreemption:           true,
	nomad.EvalTriggerReconnect:            true,
	nomad.EvalTriggerMaxDisconnectTimeout: true,
}

// handles reports whether the schedulers know the reason. An evaluation without one is processed.
func handles(trigger string) bool { return trigger == "" || triggers[trigger] }

// unhandled returns the failed form of an evaluation whose reason is not known.
func (b *base) unhandled() *nomad.Evaluation {
	failed := *b.eval
	failed.Status = nomad.EvalStatusFailed
	failed.StatusDescription = fmt.Sprintf("scheduler cannot handle '%s' evaluation reason", b.eval.TriggeredBy)
	failed.ModifyTime = b.now().UnixNano()
	return &failed
}
