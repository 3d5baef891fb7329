package taskhook

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Sampler measures the resource usage of all tasks whose drivers can measure a task at once (drivers.Meterer). Run is
// its only goroutine: one per task, with its stack and its buffers, would need more memory than all else that a
// running task needs in the agent.
type Sampler struct {
	every time.Duration

	mu    sync.Mutex
	tasks map[*sampled]struct{}
}

// sampled is one task.
type sampled struct {
	measure func() *drivers.ResourceUsage
	use     func(*drivers.ResourceUsage)

	mu   sync.Mutex // held during a sample
	over bool
}

// NewSampler returns a Sampler that measures every task once per interval; 0 means 1 s.
func NewSampler(every time.Duration) *Sampler {
	if every <= 0 {
		every = defaultStatsEvery
	}
	return &Sampler{every: every, tasks: map[*sampled]struct{}{}}
}

// Run measures the tasks until ctx ends.
func (s *Sampler) Run(ctx context.Context) error {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		for _, t := range s.all() {
			t.sample()
		}
	}
}

// all returns the tasks at this moment.
func (s *Sampler) all() []*sampled {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.tasks))
}

// add begins to measure a task. use receives each sample until remove returns.
func (s *Sampler) add(measure func() *drivers.ResourceUsage, use func(*drivers.ResourceUsage)) (remove func()) {
	t := &sampled{measure: measure, use: use}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[t] = struct{}{}
	return func() {
		s.mu.Lock()
		delete(s.tasks, t)
		s.mu.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.over = true
	}
}

func (t *sampled) sample() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.use(t.measure())
	}
}
