package worker

import (
	"context"
	"slices"
	"sync"
)

// Pool runs the workers of a server. Their number and their types of evaluations can change while it runs.
//
// There is one goroutine per worker, ended by Set or by the end of Run's context. A worker that Set ends
// finishes its evaluation first.
type Pool struct {
	build func(types []string) *Worker

	mu      sync.Mutex
	ctx     context.Context // of Run, nil before and after
	running sync.WaitGroup
	workers []*Worker
	types   []string
}

// NewPool returns a pool of n workers for these types of evaluations. Build returns a new worker.
func NewPool(n int, types []string, build func(types []string) *Worker) *Pool {
	p := &Pool{build: build}
	p.Set(n, types)
	return p
}

// Run runs the workers until ctx ends, and waits for them.
func (p *Pool) Run(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	for _, w := range p.workers {
		p.start(w)
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.ctx = nil // Set starts no worker after this
	p.mu.Unlock()
	p.running.Wait()
	return ctx.Err()
}

// Set changes the number of workers and their types of evaluations. Workers that already have these types go on.
func (p *Pool) Set(n int, types []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := 0
	if slices.Equal(p.types, types) {
		keep = min(max(n, 0), len(p.workers))
	}
	for _, w := range p.workers[keep:] {
		w.retire()
	}
	p.types, p.workers = slices.Clone(types), slices.Clone(p.workers[:keep])
	for len(p.workers) < n {
		w := p.build(p.types)
		p.workers = append(p.workers, w)
		if p.ctx != nil {
			p.start(w)
		}
	}
}

// start runs a worker. The caller holds mu.
func (p *Pool) start(w *Worker) {
	ctx := p.ctx
	p.running.Go(func() { _ = w.Run(ctx) }) // its error is that of ctx
}

// Status returns the status of each worker, without those that Set has ended.
func (p *Pool) Status() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Status, 0, len(p.workers))
	for _, w := range p.workers {
		out = append(out, w.Status())
	}
	return out
}

// Types returns the types of evaluations that the workers process. A pool without workers has them too.
func (p *Pool) Types() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.types)
}
