package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

func startToReady(ctx context.Context, b *bench) (string, bool, error) {
	var took []time.Duration
	for range 5 {
		began := time.Now()
		a, err := b.agent(ctx)
		if err != nil {
			return "", false, err
		}
		took = append(took, time.Since(began))
		if err := a.Stop(); err != nil {
			return "", false, err
		}
	}
	m := median(took)
	return fmt.Sprintf("%d ms (median of 5)", m.Milliseconds()), m <= 500*time.Millisecond, nil
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// settle is how long an agent is left alone before its memory is read.
const settle = 10 * time.Second

func idleMemory(ctx context.Context, b *bench) (string, bool, error) {
	a, err := b.agent(ctx)
	if err != nil {
		return "", false, err
	}
	defer a.Stop()
	select {
	case <-ctx.Done():
		return "", false, ctx.Err()
	case <-time.After(settle):
	}
	kib, err := pss(a.Pid())
	return fmt.Sprintf("%.1f MiB", float64(kib)/1024), kib <= 60*1024, err
}

func submitToStart(ctx context.Context, b *bench) (string, bool, error) {
	a, err := b.agent(ctx)
	if err != nil {
		return "", false, err
	}
	defer a.Stop()
	var took []time.Duration
	for i := range 33 {
		d, err := firstInstruction(ctx, a, fmt.Sprintf("start-%d", i))
		if err != nil {
			return "", false, err
		}
		if i >= 3 { // the first ones warm the agent up
			took = append(took, d)
		}
	}
	p50 := median(took)
	return fmt.Sprintf("%.1f ms (p95 %.1f ms, n=%d)", ms(p50), ms(took[len(took)*95/100]), len(took)), p50 <= 12*time.Millisecond, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// firstInstruction submits a task that prints the time, and returns how long
// after the submission that was.
func firstInstruction(ctx context.Context, a *cluster.Agent, id string) (time.Duration, error) {
	job := batch(id, 1, "exec2", map[string]any{"command": "/bin/date", "args": []string{"+%s%N"}})
	began := time.Now()
	if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
		return 0, err
	}
	allocs, err := finished(ctx, a, id, 1)
	if err != nil {
		return 0, err
	}
	text, err := stdout(a, allocs[0])
	if err != nil {
		return 0, err
	}
	var ns int64
	if _, err := fmt.Sscan(text, &ns); err != nil {
		return 0, fmt.Errorf("the task printed %q: %w", text, err)
	}
	return time.Unix(0, ns).Sub(began), nil
}

func batchRate(ctx context.Context, b *bench) (string, bool, error) {
	a, err := b.agent(ctx)
	if err != nil {
		return "", false, err
	}
	defer a.Stop()
	const n = 200
	began := time.Now()
	if _, _, err := a.Client.Jobs().Register(batch("rate", n, "exec2", map[string]any{"command": "/bin/true"}), nil); err != nil {
		return "", false, err
	}
	if _, err := finished(ctx, a, "rate", n); err != nil {
		return "", false, err
	}
	rate := n / time.Since(began).Seconds()
	return fmt.Sprintf("%.0f tasks/s", rate), rate >= 100, nil
}

func helperMemory(ctx context.Context, b *bench) (string, bool, error) {
	a, err := b.agent(ctx)
	if err != nil {
		return "", false, err
	}
	defer a.Stop()
	const n = 100
	job := batch("helpers", n, "exec2", map[string]any{"command": "/bin/sleep", "args": []string{"600"}})
	if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
		return "", false, err
	}
	if _, err := inStatus(ctx, a, "helpers", n, api.AllocClientStatusRunning); err != nil {
		return "", false, err
	}
	helpers, err := helpersOf(a)
	if err != nil {
		return "", false, err
	}
	var inits []int
	for _, pid := range helpers {
		below, err := initsOf(pid)
		if err != nil {
			return "", false, err
		}
		inits = append(inits, below...)
	}
	var kib, largest int64 // largest of the inits
	for i, pid := range slices.Concat(helpers, inits) {
		k, err := pss(pid)
		if err != nil {
			return "", false, err
		}
		kib += k
		if i >= len(helpers) {
			largest = max(largest, k)
		}
	}
	_, _, err = a.Client.Jobs().Deregister("helpers", true, nil)
	per := float64(kib) / 1024 / n
	ok := per <= 0.5 && len(helpers) == 1 && len(inits) == n && largest <= 100
	return fmt.Sprintf("%.3f MiB, %d helper process(es) and %d inits of at most %d KiB for %d tasks", per, len(helpers), len(inits), largest, n), ok, err
}

func placementRate(ctx context.Context, b *bench) (string, bool, error) {
	a, err := b.agent(ctx)
	if err != nil {
		return "", false, err
	}
	defer a.Stop()
	const n = 2000
	job := batch("placed", n, "mock_driver", map[string]any{"run_for": "1s"})
	began := time.Now()
	resp, _, err := a.Client.Jobs().Register(job, nil)
	if err != nil {
		return "", false, err
	}
	var index uint64
	for {
		eval, meta, err := a.Client.Evaluations().Info(resp.EvalID, (&api.QueryOptions{WaitIndex: index, WaitTime: time.Minute}).WithContext(ctx))
		if err != nil {
			return "", false, err
		}
		if eval.Status == api.EvalStatusComplete {
			break
		}
		index = meta.LastIndex
	}
	took := time.Since(began)
	allocs, _, err := a.Client.Jobs().Allocations("placed", false, nil)
	if err != nil {
		return "", false, err
	}
	if len(allocs) != n {
		return "", false, fmt.Errorf("%d of %d allocations were placed", len(allocs), n)
	}
	rate := n / took.Seconds()
	return fmt.Sprintf("%.0f/s", rate), rate >= 3000, nil
}

func binarySize(_ context.Context, b *bench) (string, bool, error) {
	info, err := os.Stat(b.nomad)
	if err != nil {
		return "", false, err
	}
	return fmt.Sprintf("%.1f MiB", float64(info.Size())/(1<<20)), info.Size() <= 90<<20, nil
}
