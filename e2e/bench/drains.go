package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

const (
	drainNodes    = 200
	drainDrained  = 100
	drainJobs     = 100
	drainCount    = 10
	drainParallel = 2
	drainTarget   = 30 * time.Second
	drainWithin   = 45 * time.Second
	drainAtOnce   = 16
)

// drains drains half of the nodes of a fleet at once. Simulated nodes start and stop allocations at once. The
// events of all allocations are checked: no service may ever have more than max_parallel missing.
func drains(ctx context.Context, b *bench) (string, bool, error) {
	a, err := b.server(ctx)
	if err != nil {
		return "", false, err
	}
	defer a.Kill()
	if err := spreadOut(a); err != nil {
		return "", false, err
	}
	fleet, err := b.simulate(ctx, a, drainNodes)
	if err != nil {
		return "", false, err
	}
	defer fleet.stop()
	if err := fleet.do("run", drainNodes); err != nil {
		return "", false, err
	}
	if err := migrating(ctx, a); err != nil {
		return "", false, err
	}
	identities, err := onFirst(a, drainDrained)
	if err != nil {
		return "", false, err
	}
	within, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	w, err := watchRunning(within, a)
	if err != nil {
		return "", false, err
	}
	took, err := drainFirst(within, a)
	least, watched := w.end(cancel)
	if err := errors.Join(err, watched); err != nil {
		return "", false, err
	}
	ok := took <= drainTarget && least >= drainCount-drainParallel
	return fmt.Sprintf("%.1f s for %d allocations on %d nodes; services of %d with max_parallel %d always had %d running",
		took.Seconds(), identities, drainDrained, drainCount, drainParallel, least), ok, nil
}

// migrating registers the services and waits until all their allocations run.
func migrating(ctx context.Context, a *cluster.Agent) error {
	kind, parallel, none := "service", drainParallel, time.Duration(0)
	for i := range drainJobs {
		job := batch(serviceID(i), drainCount, "mock_driver", map[string]any{"run_for": "1h"})
		group := job.TaskGroups[0]
		job.Type, group.RestartPolicy = &kind, nil
		group.Migrate = &api.MigrateStrategy{MaxParallel: &parallel, MinHealthyTime: &none}
		group.Update = &api.UpdateStrategy{MinHealthyTime: &none}
		if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
			return err
		}
	}
	return summed(ctx, a, fmt.Sprintf("%d allocations run", drainJobs*drainCount), func(s api.TaskGroupSummary) bool {
		return s.Running == drainJobs*drainCount
	})
}

// drainFirst drains the first nodes and returns the time until all are drained.
func drainFirst(ctx context.Context, a *cluster.Agent) (time.Duration, error) {
	nodes, err := list(a)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	all := errgroup.Group{}
	all.SetLimit(drainAtOnce)
	for _, node := range nodes {
		if !isFirst(node.Name, drainDrained) {
			continue
		}
		all.Go(func() error {
			_, err := a.Client.Nodes().UpdateDrain(node.ID, &api.DrainSpec{Deadline: time.Hour}, false, nil)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return 0, err
	}
	for index := uint64(0); ; {
		nodes, meta, err := a.Client.Nodes().List((&api.QueryOptions{WaitIndex: index, WaitTime: time.Minute}).WithContext(ctx))
		if err != nil {
			return 0, fmt.Errorf("wait until the nodes are drained: %w", err)
		}
		drained := 0
		for _, n := range nodes {
			if n.LastDrain != nil && n.LastDrain.Status == api.DrainStatusComplete {
				drained++
			}
		}
		if drained == drainDrained {
			return time.Since(began), nil
		}
		index = meta.LastIndex
	}
}

// runningWatch follows the events of all allocations.
type runningWatch struct {
	running map[string]map[string]bool // IDs of running allocations by job
	least   int
	done    chan error
}

// watchRunning starts to follow the running allocations.
func watchRunning(ctx context.Context, a *cluster.Agent) (*runningWatch, error) {
	w := &runningWatch{running: map[string]map[string]bool{}, least: drainCount, done: make(chan error, 1)}
	allocs, meta, err := a.Client.Allocations().List(nil)
	if err != nil {
		return nil, err
	}
	for _, alloc := range allocs {
		w.note(alloc.JobID, alloc.ID, alloc.ClientStatus)
	}
	events, err := a.Client.EventStream().Stream(ctx, map[api.Topic][]string{api.TopicAllocation: nil}, meta.LastIndex, nil)
	if err != nil {
		return nil, err
	}
	go func() { w.done <- w.follow(events, meta.LastIndex) }()
	return w, nil
}

func (w *runningWatch) note(job, id, status string) {
	if w.running[job] == nil {
		w.running[job] = map[string]bool{}
	}
	if status == api.AllocClientStatusRunning {
		w.running[job][id] = true
	} else {
		delete(w.running[job], id)
	}
}

// follow applies events until the stream ends. The events of one log entry count together.
func (w *runningWatch) follow(events <-chan *api.Events, after uint64) error {
	for e := range events {
		if e.Err != nil {
			return e.Err
		}
		if e.Index <= after {
			continue
		}
		touched := map[string]bool{}
		for _, event := range e.Events {
			text, err := json.Marshal(event.Payload["Allocation"])
			if err != nil {
				return err
			}
			var alloc api.AllocationListStub
			if err := json.Unmarshal(text, &alloc); err != nil {
				return err
			}
			w.note(alloc.JobID, alloc.ID, alloc.ClientStatus)
			touched[alloc.JobID] = true
		}
		for job := range touched {
			w.least = min(w.least, len(w.running[job]))
		}
	}
	return nil
}

// end ends the stream. It returns the smallest number of allocations that any service had running.
func (w *runningWatch) end(cancel context.CancelFunc) (int, error) {
	cancel()
	err := <-w.done
	return w.least, err
}
