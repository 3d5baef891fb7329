package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// The mixed load: mixedClients clients run jobs and as many read, for mixedFor.
const (
	mixedFor     = 15 * time.Second
	mixedClients = 4
)

// mixedLoad runs jobs on one agent, one after the other, while other clients list and read them. It
// covers what a profile of registrations does not: scheduling, the client and the read routes.
func mixedLoad(ctx context.Context, b *bench) (string, bool, error) {
	a, err := b.agent(ctx)
	if err != nil {
		return "", false, err
	}
	defer a.Stop()
	run, read := &work{}, &work{}
	err = b.profiled(ctx, []string{a.Address()}, profile{"mixed", mixedFor}, func() error {
		run.end = time.Now().Add(mixedFor)
		read.end = run.end
		all, ctx := errgroup.WithContext(ctx)
		for i := range mixedClients {
			all.Go(func() error { return runJobs(ctx, a, fmt.Sprintf("mixed-%d", i), run) })
			all.Go(func() error { return readAll(ctx, a, read) })
		}
		return all.Wait()
	})
	seconds := mixedFor.Seconds()
	return fmt.Sprintf("%.0f jobs/s finished, %.0f reads/s", float64(run.done.Load())/seconds, float64(read.done.Load())/seconds), true, err
}

// runJobs registers a job, waits until its task has finished, and repeats that.
func runJobs(ctx context.Context, a *cluster.Agent, prefix string, w *work) error {
	for i := 0; time.Now().Before(w.end); i++ {
		id := fmt.Sprintf("%s-%d", prefix, i)
		job := batch(id, 1, "exec2", map[string]any{"command": "/bin/true"})
		if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
			return fmt.Errorf("register job %s: %w", id, err)
		}
		if _, err := finished(ctx, a, id, 1); err != nil {
			return fmt.Errorf("wait for job %s: %w", id, err)
		}
		w.done.Add(1)
	}
	return nil
}

// readAll lists jobs, allocations, evaluations and nodes in turn, in pages.
func readAll(ctx context.Context, a *cluster.Agent, w *work) error {
	for time.Now().Before(w.end) {
		for _, list := range []string{"/v1/jobs", "/v1/allocations", "/v1/evaluations", "/v1/nodes"} {
			var out []map[string]any
			if _, err := a.Client.Raw().Query(list, &out, (&api.QueryOptions{PerPage: 50}).WithContext(ctx)); err != nil {
				return fmt.Errorf("read %s: %w", list, err)
			}
			w.done.Add(1)
		}
	}
	return nil
}
