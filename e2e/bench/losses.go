package main

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

const (
	lossNodes  = 5000
	lossLost   = 500
	lossJobs   = 50
	lossCount  = 100 // allocations of each job
	lossTarget = 10 * time.Second
	// lossWithin bounds the wait for the replacements.
	lossWithin = 30 * time.Second
)

// losses measures the time from the first of many nodes that go down until all their allocations are
// replaced.
func losses(ctx context.Context, b *bench) (string, bool, error) {
	a, err := b.server(ctx)
	if err != nil {
		return "", false, err
	}
	defer a.Kill()
	if err := spreadOut(a); err != nil {
		return "", false, err
	}
	fleet, err := b.simulate(ctx, a, lossNodes)
	if err != nil {
		return "", false, err
	}
	defer fleet.stop()
	if err := services(ctx, a, lossJobs, lossCount); err != nil {
		return "", false, err
	}
	identities, err := onFirst(a, lossLost)
	if err != nil {
		return "", false, err
	}
	var took time.Duration
	err = b.profiled(ctx, []string{a.Address()}, profile{"losses", lossTarget}, func() error {
		began := time.Now()
		if err := fleet.do("lose", lossLost); err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, lossWithin)
		defer cancel()
		at, err := replaced(within, a, identities)
		took = at.Sub(began)
		return err
	})
	if err != nil {
		return "", false, err
	}
	return fmt.Sprintf("%.1f s for %d of %d allocations", took.Seconds(), identities, lossJobs*lossCount), took <= lossTarget, nil
}

// spreadOut selects the spread algorithm, so that all nodes have allocations.
func spreadOut(a *cluster.Agent) error {
	spread := &api.SchedulerConfiguration{SchedulerAlgorithm: api.SchedulerAlgorithmSpread}
	_, _, err := a.Client.Operator().SchedulerSetConfiguration(spread, nil)
	return err
}

// services registers service jobs without deployments and waits until all their allocations are placed.
func services(ctx context.Context, a *cluster.Agent, jobs, count int) error {
	kind, parallel := "service", 0
	for i := range jobs {
		job := batch(serviceID(i), count, "mock_driver", map[string]any{"run_for": "1h"})
		job.Type = &kind
		job.TaskGroups[0].RestartPolicy = nil
		job.Update = &api.UpdateStrategy{MaxParallel: &parallel}
		resp, _, err := a.Client.Jobs().Register(job, nil)
		if err != nil {
			return err
		}
		if err := evalComplete(ctx, a, resp.EvalID); err != nil {
			return err
		}
	}
	return summed(ctx, a, fmt.Sprintf("%d allocations are placed", jobs*count), func(s api.TaskGroupSummary) bool {
		return s.Starting+s.Running == jobs*count
	})
}

func serviceID(i int) string { return fmt.Sprintf("service-%d", i) }

// onFirst returns the number of allocations on the first n simulated nodes that are not terminal.
func onFirst(a *cluster.Agent, n int) (int, error) {
	nodes, err := list(a)
	if err != nil {
		return 0, err
	}
	first := map[string]bool{}
	for _, node := range nodes {
		if isFirst(node.Name, n) {
			first[node.ID] = true
		}
	}
	if len(first) != n {
		return 0, fmt.Errorf("%d of the first %d nodes are registered", len(first), n)
	}
	allocs, _, err := a.Client.Allocations().List(nil)
	if err != nil {
		return 0, err
	}
	identities := 0
	for _, alloc := range allocs {
		if first[alloc.NodeID] && alloc.DesiredStatus == api.AllocDesiredStatusRun && alloc.ClientStatus != api.AllocClientStatusLost {
			identities++
		}
	}
	return identities, nil
}

// replaced waits until a number of allocations is lost and none runs on a lost node, and all jobs have their count
// again. It returns the time of the last change. More may be lost, because a node can get a replacement before it is
// reported as down.
func replaced(ctx context.Context, a *cluster.Agent, lost int) (time.Time, error) {
	for {
		err := summed(ctx, a, fmt.Sprintf("%d lost allocations are replaced", lost), func(s api.TaskGroupSummary) bool {
			return s.Lost >= lost && s.Starting+s.Running == lossJobs*lossCount
		})
		at := time.Now()
		if err != nil {
			return at, err
		}
		if identities, err := onFirst(a, lossLost); err != nil || identities == 0 {
			return at, err
		}
	}
}

// summed waits until the sum of the summaries of all jobs passes a check.
func summed(ctx context.Context, a *cluster.Agent, what string, check func(api.TaskGroupSummary) bool) error {
	for index := uint64(0); ; {
		jobs, meta, err := a.Client.Jobs().List((&api.QueryOptions{WaitIndex: index, WaitTime: time.Minute}).WithContext(ctx))
		if err != nil {
			return fmt.Errorf("wait until %s: %w", what, err)
		}
		var sum api.TaskGroupSummary
		for _, j := range jobs {
			for _, s := range j.JobSummary.Summary {
				sum.Starting, sum.Running, sum.Lost = sum.Starting+s.Starting, sum.Running+s.Running, sum.Lost+s.Lost
			}
		}
		if check(sum) {
			return nil
		}
		index = meta.LastIndex
	}
}
