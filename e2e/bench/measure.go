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

// settle is the idle time before the memory of an agent is read.
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
	helpers, err := helpersOf(a)
	if err != nil {
		return "", false, err
	}
	own, err := pss(a.Pid())
	if err != nil {
		return "", false, err
	}
	all, err := pss(append(helpers, a.Pid())...)
	return fmt.Sprintf("%.1f MiB, with %d helper processes %.1f", float64(own)/1024, len(helpers), float64(all)/1024), own <= 45*1024, err
}

func submitToStart(ctx context.Context, b *bench) (string, bool, error) {
	a, err := b.agent(ctx)
	if err != nil {
		return "", false, err
	}
	defer a.Stop()
	paused, err := firstInstructions(ctx, a, betweenSubmits)
	if err != nil {
		return "", false, err
	}
	atOnce, err := firstInstructions(ctx, a, 0)
	if err != nil {
		return "", false, err
	}
	p50 := median(paused)
	return fmt.Sprintf("%.1f ms (p95 %.1f ms, n=%d); without a pause after the task before %.1f ms", ms(p50),
			ms(paused[len(paused)*95/100]), len(paused), ms(median(atOnce))),
		p50 <= 18*time.Millisecond, nil
}

// betweenSubmits lets the agent finish its work after a task before the next one starts: users
// deploy seconds apart. Other figures cover the load of many tasks.
const betweenSubmits = 100 * time.Millisecond

// firstInstructions submits tasks one after the other.
func firstInstructions(ctx context.Context, a *cluster.Agent, pause time.Duration) ([]time.Duration, error) {
	took, err := repeat(ctx, 33, pause, func(i int) (time.Duration, error) {
		return firstInstruction(ctx, a, fmt.Sprintf("start-%d-%d", pause.Milliseconds(), i))
	})
	if err != nil {
		return nil, err
	}
	return took[3:], nil // the first ones are a warm-up
}

// repeat runs measure n times, each time after a pause.
func repeat(ctx context.Context, n int, pause time.Duration, measure func(i int) (time.Duration, error)) ([]time.Duration, error) {
	var took []time.Duration
	for i := range n {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
		d, err := measure(i)
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	return took, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// firstInstruction submits a task that prints the time, and returns the time since the submission.
func firstInstruction(ctx context.Context, a *cluster.Agent, id string) (time.Duration, error) {
	job := batch(id, 1, "exec2", map[string]any{"command": "/bin/date", "args": []string{"+%s%N"}})
	// The default of a job without CPU: with the minimum, the task would wait for its next CPU
	// period before it prints.
	job.TaskGroups[0].Tasks[0].Resources.CPU = nil
	return runFirst(ctx, a, job)
}

// runFirst submits a job whose task prints the time in nanoseconds.
func runFirst(ctx context.Context, a *cluster.Agent, job *api.Job) (time.Duration, error) {
	began := time.Now()
	if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
		return 0, err
	}
	allocs, err := finished(ctx, a, *job.ID, 1)
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
	return fmt.Sprintf("%.0f tasks/s", rate), rate >= 60, nil
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
	if _, err := inStatus(ctx, a, goal{"helpers", n, api.AllocClientStatusRunning}); err != nil {
		return "", false, err
	}
	helpers, err := helpersOf(a)
	if err != nil {
		return "", false, err
	}
	var inits []int
	for _, pid := range helpers {
		i, err := below(pid, "nomad-init")
		if err != nil {
			return "", false, err
		}
		inits = append(inits, i...)
	}
	kib, err := pss(helpers...)
	if err != nil {
		return "", false, err
	}
	var largest int64 // of the init processes
	for _, pid := range inits {
		k, err := pss(pid)
		if err != nil {
			return "", false, err
		}
		kib, largest = kib+k, max(largest, k)
	}
	if _, _, err := a.Client.Jobs().Deregister("helpers", false, nil); err != nil {
		return "", false, err
	}
	_, err = inStatus(ctx, a, goal{"helpers", n, api.AllocClientStatusComplete}) // a stopping agent leaves tasks running
	per := float64(kib) / 1024 / n
	ok := per <= 0.5 && len(helpers) == 1 && len(inits) == n && largest <= 100
	return fmt.Sprintf("%.3f MiB, %d helper process(es) and %d inits of at most %d KiB for %d tasks",
		per, len(helpers), len(inits), largest, n), ok, err
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
