//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/open-nomad/open-nomad/api"
)

// topics are the objects in a timeline.
var topics = map[api.Topic][]string{
	api.TopicJob: {"*"}, api.TopicEvaluation: {"*"}, api.TopicAllocation: {"*"}, api.TopicDeployment: {"*"}, api.TopicNode: {"*"},
}

// Recorder follows the event streams of all servers of a cluster.
type Recorder struct {
	Timeline *Timeline
	cluster  *Cluster

	mu   sync.Mutex
	errs []error // two servers differ
}

// NewRecorder returns a recorder of a cluster.
func NewRecorder(c *Cluster) *Recorder { return &Recorder{Timeline: NewTimeline(), cluster: c} }

// Run records until ctx ends. It returns an error if servers reported different objects.
func (r *Recorder) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, s := range r.cluster.Servers {
		wg.Go(func() { r.follow(ctx, s) })
	}
	wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.errs...)
}

// follow reads the event stream of a server, again after each of its ends.
func (r *Recorder) follow(ctx context.Context, s *Server) {
	next := uint64(0)
	for ctx.Err() == nil {
		if events, err := s.Client.EventStream().Stream(ctx, topics, next, nil); err == nil {
			next = r.read(s, events, next)
		}
		pause(ctx, poll) // it fails only at the end
	}
}

// read adds the events of a stream. It returns the index of the next log entry.
func (r *Recorder) read(s *Server, events <-chan *api.Events, next uint64) uint64 {
	for batch := range events {
		if batch.Err != nil {
			continue // the last one
		}
		for i := range batch.Events {
			if err := r.Timeline.Add(s.Name, &batch.Events[i]); err != nil {
				r.mu.Lock()
				r.errs = append(r.errs, err)
				r.mu.Unlock()
			}
		}
		next = max(next, batch.Index+1)
	}
	return next
}

// Complete waits until the timeline contains the last change of every allocation and deployment in the state of
// every server.
func (r *Recorder) Complete(ctx context.Context) error {
	for _, s := range r.cluster.Servers {
		err := within(ctx, readyWithin, "the timeline has the state of "+s.Name, func(ctx context.Context) error {
			q := &api.QueryOptions{AllowStale: true}
			allocs, _, err := s.Client.Allocations().List(q.WithContext(ctx))
			if err != nil {
				return err
			}
			for _, a := range allocs {
				if at := r.Timeline.Last(api.TopicAllocation, a.ID); at != a.ModifyIndex {
					return fmt.Errorf("allocation %s changed at index %d, in the timeline at %d", a.ID, a.ModifyIndex, at)
				}
			}
			deployments, _, err := s.Client.Deployments().List(q.WithContext(ctx))
			if err != nil {
				return err
			}
			for _, d := range deployments {
				if at := r.Timeline.Last(api.TopicDeployment, d.ID); at != d.ModifyIndex {
					return fmt.Errorf("deployment %s changed at index %d, in the timeline at %d", d.ID, d.ModifyIndex, at)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// query returns the options of a read.
func query(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{}).WithContext(ctx)
}
