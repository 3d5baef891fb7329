//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/open-nomad/open-nomad/api"
)

// Jobs of the schedules.
var (
	drained = Service{Job: "drained", Count: 9, MaxParallel: 1}
	ticks   = Cron{Job: "ticks", Every: 1}
	alone   = Cron{Job: "alone", Every: 2, NoOverlap: true}
)

// updated is the job with canaries, and how many it has.
const (
	updated  = "updated"
	canaries = 1
)

// Schedules are jobs that the leader changes in many steps: drains move a service, updates with canaries succeed or
// are reverted, and periodic jobs are launched.
type Schedules struct {
	Recorder *Recorder

	cluster *Cluster
	faults  func() int64 // that took effect
	next    atomic.Int64 // server to ask
	// drains and updates are how many lasted through two or more changes of leaders.
	drains, updates atomic.Int64
}

// NewSchedules returns the schedules of a cluster. faults returns the number of faults so far, each a change of
// leaders.
func NewSchedules(c *Cluster, faults func() int64) *Schedules {
	return &Schedules{Recorder: NewRecorder(c), cluster: c, faults: faults}
}

// Start registers all jobs and waits until the services are complete.
func (s *Schedules) Start(ctx context.Context) error {
	for _, j := range []*api.Job{drainedJob(), updatedJob(0, false), cronJob(ticks, "200ms"), cronJob(alone, "3s")} {
		err := s.ask(ctx, "job "+*j.ID+" is registered", func(c *api.Client, ctx context.Context) error {
			_, _, err := c.Jobs().Register(j, (&api.WriteOptions{}).WithContext(ctx))
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, job := range []string{drained.Job, updated} {
		if err := s.deployed(ctx, job, func(*api.Job) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// Spanned returns how many drains and updates lasted through two or more changes of leaders.
func (s *Schedules) Spanned() (drains, updates int64) { return s.drains.Load(), s.updates.Load() }

// ask calls do with clients of the servers in turn, until one call succeeds.
func (s *Schedules) ask(ctx context.Context, what string, do func(*api.Client, context.Context) error) error {
	return within(ctx, readyWithin, what, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		servers := s.cluster.Servers
		return do(servers[int(s.next.Add(1))%len(servers)].Client, ctx)
	})
}

// spans runs one drain or update, and counts it if two leaders changed meanwhile.
func (s *Schedules) spans(count *atomic.Int64, run func() error) error {
	before := s.faults()
	if err := run(); err != nil {
		return err
	}
	if s.faults()-before >= 2 {
		count.Add(1)
	}
	return nil
}

// Drain drains one node after the other until ctx ends, and completes the last drain.
func (s *Schedules) Drain(ctx, all context.Context) error {
	for round := 0; ctx.Err() == nil; round++ {
		n := s.cluster.Nodes[round%len(s.cluster.Nodes)]
		if err := s.spans(&s.drains, func() error { return s.drain(all, n, strconv.Itoa(round)) }); err != nil {
			return err
		}
		err := s.ask(all, "node "+n.Name+" is eligible again", func(c *api.Client, ctx context.Context) error {
			_, err := c.Nodes().ToggleEligibility(n.ID, true, (&api.WriteOptions{}).WithContext(ctx))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// drain drains a node and waits for its end.
func (s *Schedules) drain(ctx context.Context, n *Node, round string) error {
	opts := &api.DrainOptions{DrainSpec: &api.DrainSpec{}, Meta: map[string]string{roundKey: round}}
	err := s.ask(ctx, "node "+n.Name+" drains", func(c *api.Client, ctx context.Context) error {
		_, err := c.Nodes().UpdateDrainOpts(n.ID, opts, (&api.WriteOptions{}).WithContext(ctx))
		return err
	})
	if err != nil {
		return err
	}
	err = s.ask(ctx, "the drain of "+n.Name+" is complete", func(c *api.Client, ctx context.Context) error {
		is, _, err := c.Nodes().Info(n.ID, query(ctx))
		switch {
		case err != nil:
			return err
		case is.DrainStrategy != nil, is.LastDrain == nil, is.LastDrain.Meta[roundKey] != round:
			return fmt.Errorf("the last drain is %+v", is.LastDrain)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w%s", err, s.picture(ctx))
	}
	return nil
}

// Update registers versions of the job with canaries until ctx ends, each second one with a task that fails, and
// waits for the end of the last deployment.
func (s *Schedules) Update(ctx, all context.Context) error {
	for round := 1; ctx.Err() == nil; round++ {
		if err := s.spans(&s.updates, func() error { return s.update(all, updatedJob(round, round%2 == 0), round%2 == 0) }); err != nil {
			return err
		}
	}
	return nil
}

// update registers a version and waits for the end of its deployment, and of that of the version to which it is
// reverted if its tasks fail. The registration names the version that it replaces, so that it happens once.
func (s *Schedules) update(ctx context.Context, j *api.Job, fails bool) error {
	var before uint64
	err := s.ask(ctx, "the job with canaries is read", func(c *api.Client, ctx context.Context) error {
		is, _, err := c.Jobs().Info(updated, query(ctx))
		if err == nil {
			before = *is.JobModifyIndex
		}
		return err
	})
	if err != nil {
		return err
	}
	err = s.ask(ctx, "the job with canaries is updated", func(c *api.Client, ctx context.Context) error {
		is, _, err := c.Jobs().Info(updated, query(ctx))
		if err != nil || *is.JobModifyIndex != before {
			return err
		}
		_, _, err = c.Jobs().EnforceRegister(j, before, (&api.WriteOptions{}).WithContext(ctx))
		return err
	})
	if err != nil {
		return err
	}
	return s.deployed(ctx, updated, func(is *api.Job) error {
		if fails && is.Meta[roundKey] == j.Meta[roundKey] {
			return errors.New("the version is not reverted")
		}
		return nil
	})
}

// deployed waits until the deployment of the current version of a job has ended, and the version suits.
func (s *Schedules) deployed(ctx context.Context, job string, suits func(*api.Job) error) error {
	return s.ask(ctx, "the deployment of "+job+" has ended", func(c *api.Client, ctx context.Context) error {
		is, _, err := c.Jobs().Info(job, query(ctx))
		if err != nil {
			return err
		}
		d, _, err := c.Jobs().LatestDeployment(job, query(ctx))
		switch {
		case err != nil:
			return err
		case d == nil || d.JobVersion != *is.Version || !terminal(d):
			return fmt.Errorf("version %d has the deployment %+v", *is.Version, d)
		}
		return suits(is)
	})
}

// Finish waits for one more launch of each periodic job, stops them, and waits until nothing changes.
func (s *Schedules) Finish(ctx context.Context) error {
	for _, cron := range []Cron{ticks, alone} {
		before, err := CheckCron(s.Recorder.Timeline.Changes(), cron)
		if err != nil {
			return err
		}
		err = within(ctx, readyWithin, cron.Job+" is launched again", func(context.Context) error {
			now, err := CheckCron(s.Recorder.Timeline.Changes(), cron)
			if err == nil && now == before {
				err = fmt.Errorf("after %d launches", now)
			}
			return err
		})
		if err != nil {
			return err
		}
		err = s.ask(ctx, cron.Job+" is stopped", func(c *api.Client, ctx context.Context) error {
			_, _, err := c.Jobs().Deregister(cron.Job, false, (&api.WriteOptions{}).WithContext(ctx))
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.ask(ctx, "all periodic jobs have ended", func(c *api.Client, ctx context.Context) error {
		jobs, _, err := c.Jobs().List(query(ctx))
		for _, j := range jobs {
			if j.ParentID != "" && j.Status != "dead" {
				return fmt.Errorf("%s is %s", j.ID, j.Status)
			}
		}
		return err
	})
}

// Check checks the recorded history, and returns what happened in it.
func (s *Schedules) Check() (summary string, err error) {
	changes := s.Recorder.Timeline.Changes()
	drains, err1 := CheckDrains(changes, drained)
	promotions, err2 := CheckCanaries(changes, updated, canaries)
	reverts, err3 := CheckReverts(changes, updated)
	ticked, err4 := CheckCron(changes, ticks)
	ran, err5 := CheckCron(changes, alone)
	err = errors.Join(err1, err2, err3, err4, err5)
	if err == nil && (drains == 0 || promotions == 0 || ticked == 0 || ran == 0) {
		err = errors.New("nothing was drained, promoted or launched")
	}
	return fmt.Sprintf("%d changes: %d drains, %d promotions, %d reverts, %d and %d launches", len(changes), drains,
		promotions, reverts, ticked, ran), err
}
