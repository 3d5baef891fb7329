package main

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

const (
	// evaluatedJobs is the number of jobs registered one after the other, with a pause. The work
	// after a registration must not delay the next one.
	evaluatedJobs  = 60
	evaluatedPause = 120 * time.Millisecond
	// evaluatedWithin is the target.
	evaluatedWithin = 20 * time.Millisecond
)

// evaluated measures the time from a job registration until its evaluation is complete, with three
// servers. A worker starts only when its server has the new state.
func evaluated(ctx context.Context, b *bench) (string, bool, error) {
	s, err := b.servers(ctx, "")
	if err != nil {
		return "", false, err
	}
	defer s.stop()
	took, err := repeat(ctx, evaluatedJobs, evaluatedPause, func(n int) (time.Duration, error) { return s.evaluated(ctx, n) })
	if err != nil {
		return "", false, err
	}
	p50, p95 := percentile(took, 50), percentile(took, 95)
	return fmt.Sprintf("p50 %.1f ms, p95 %.1f ms (%d jobs)", ms(p50), ms(p95), len(took)), p50 <= evaluatedWithin, nil
}

// evaluated registers a job and waits until its evaluation is complete.
func (s *servers) evaluated(ctx context.Context, n int) (time.Duration, error) {
	at := s.all[n%len(s.all)].Client
	began := time.Now()
	job, _, err := at.Jobs().Register(smallJob(fmt.Sprintf("evaluated-%d", n)), nil)
	if err != nil {
		return 0, err
	}
	for index := uint64(0); ; {
		eval, meta, err := at.Evaluations().Info(job.EvalID, (&api.QueryOptions{WaitIndex: index}).WithContext(ctx))
		if err != nil {
			return 0, err
		}
		if eval.Status != api.EvalStatusPending {
			return time.Since(began), nil
		}
		index = meta.LastIndex
	}
}
