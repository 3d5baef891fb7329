package joblogs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/backoff"
)

// The wait times of the blocking queries.
const (
	waitForChange = time.Minute
	waitForEnd    = 2 * time.Second // when all allocations are terminal
)

// Follow prints the logs of the running allocations and of all later ones until the job is dead and
// its logs were printed. If ctx ends, it returns nil.
func Follow(ctx context.Context, c *api.Client, o Options, out *Output) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &follower{client: c, opts: o, out: out, turns: newTurns(maxStreams), logs: map[string]*reader{},
		active: map[string]bool{}, skipped: map[string]bool{}}
	err := f.watch(ctx)
	if err != nil {
		cancel()
	}
	f.work.Wait()
	if ctx.Err() != nil && err == nil {
		return nil
	}
	return errors.Join(err, f.failed())
}

// follower starts the readers of the logs of one job.
type follower struct {
	client *api.Client
	opts   Options
	out    *Output
	turns  *turns
	work   sync.WaitGroup

	logs    map[string]*reader // owned by watch
	skipped map[string]bool    // allocations that were over before the start
	begun   bool
	full    bool // maxLogs was reached

	mu       sync.Mutex
	active   map[string]bool
	failures int
}

// watch starts readers after each change of the allocations. It returns when the job is over.
func (f *follower) watch(ctx context.Context) error {
	var index uint64
	wait := waitForChange
	again := backoff.Backoff{Min: retryFirst, Max: retryMax}
	for {
		q := (&api.QueryOptions{Namespace: f.opts.Namespace, WaitIndex: index, WaitTime: wait}).WithContext(ctx)
		stubs, meta, err := f.client.Jobs().Allocations(f.opts.Job, false, q)
		var over bool
		if err == nil {
			f.update(ctx, stubs)
			over, err = f.over(ctx, stubs)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (permanent(err) || !f.begun):
			return fmt.Errorf("Error querying allocations of job %q: %w", f.opts.Job, err)
		case err != nil:
			again.Wait(ctx) // the next query fails if ctx ended
			continue
		case over:
			return nil
		}
		f.begun, index, wait = true, meta.LastIndex, waitForChange
		again.Reset()
		if allTerminal(stubs) {
			wait = waitForEnd
		}
	}
}

// over reports whether the job is dead or gone and its allocations are terminal.
func (f *follower) over(ctx context.Context, stubs []*api.AllocationListStub) (bool, error) {
	if f.begun && !allTerminal(stubs) {
		return false, nil
	}
	q := (&api.QueryOptions{Namespace: f.opts.Namespace}).WithContext(ctx)
	job, _, err := f.client.Jobs().Info(f.opts.Job, q)
	if api.StatusCode(err) == http.StatusNotFound && f.begun {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	stopped := job.Stop != nil && *job.Stop || job.Status != nil && *job.Status == "dead"
	return stopped && allTerminal(stubs), nil
}

func allTerminal(stubs []*api.AllocationListStub) bool {
	return !slices.ContainsFunc(stubs, func(a *api.AllocationListStub) bool { return !terminal(a) })
}

// terminal reports whether the client will not run the tasks of the allocation any more.
func terminal(a *api.AllocationListStub) bool {
	switch a.ClientStatus {
	case api.AllocClientStatusComplete, api.AllocClientStatusFailed, api.AllocClientStatusLost:
		return true
	}
	return false
}

// update starts a reader for each log of a task that has started.
func (f *follower) update(ctx context.Context, stubs []*api.AllocationListStub) {
	if !f.begun {
		for _, a := range stubs {
			f.skipped[a.ID] = true
		}
		for _, a := range current(stubs) {
			delete(f.skipped, a.ID)
		}
	}
	for _, a := range stubs {
		if f.skipped[a.ID] && terminal(a) {
			continue
		}
		delete(f.skipped, a.ID) // started again
		for _, l := range logsOf(a, &f.opts) {
			f.start(ctx, l)
		}
	}
}

// start starts the reader of a log unless it is active, or has read all of it.
func (f *follower) start(ctx context.Context, l logName) {
	key := l.alloc.ID + "/" + l.task + "/" + l.kind
	r := f.logs[key]
	if r == nil {
		if len(f.logs) == maxLogs {
			if !f.full {
				f.full = true
				f.out.Warn(fmt.Sprintf("Job %q has more than %d logs: later ones are not printed", f.opts.Job, maxLogs))
			}
			return
		}
		r = newReader(f.client, &f.opts, f.out, l)
		r.follow, r.turns = true, f.turns
		f.logs[key] = r
	} else if f.isActive(key) || !l.running {
		r.over.Store(terminal(l.alloc))
		return
	}
	r.over.Store(terminal(l.alloc))
	f.setActive(key, true)
	f.work.Go(func() {
		err := r.run(ctx)
		f.setActive(key, false)
		if err != nil && ctx.Err() == nil {
			f.fail(err)
		}
	})
}

func (f *follower) isActive(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.active[key]
}

func (f *follower) setActive(key string, active bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active[key] = active
}

func (f *follower) fail(err error) {
	f.mu.Lock()
	f.failures++
	f.mu.Unlock()
	f.out.Warn(err.Error())
}

func (f *follower) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failures == 0 {
		return nil
	}
	return fmt.Errorf("%d logs were not printed to their end", f.failures)
}

// logName is one log of an allocation.
type logName struct {
	alloc      *api.AllocationListStub
	task, kind string
	running    bool
}

// logsOf returns the selected logs of the tasks of an allocation that have started, in order.
func logsOf(a *api.AllocationListStub, o *Options) []logName {
	if o.Group != "" && a.TaskGroup != o.Group {
		return nil
	}
	var out []logName
	for _, task := range slices.Sorted(maps.Keys(a.TaskStates)) {
		s := a.TaskStates[task]
		if s == nil || s.StartedAt.IsZero() || o.Task != "" && task != o.Task {
			continue
		}
		for _, kind := range o.Types {
			out = append(out, logName{a, task, kind, s.State == "running"})
		}
	}
	return out
}

func newReader(c *api.Client, o *Options, out *Output, l logName) *reader {
	alloc := &api.Allocation{ID: l.alloc.ID, Namespace: l.alloc.Namespace}
	return &reader{client: c, opts: o, alloc: alloc, task: l.task, kind: l.kind,
		lines: out.lines(alloc.ID, l.task, l.kind == api.FSLogNameStderr, o.Lines)}
}

// current returns the allocations that run now. Without any it returns those that no other
// allocation has replaced, of the newest version of the job.
func current(stubs []*api.AllocationListStub) []*api.AllocationListStub {
	var running, last []*api.AllocationListStub
	var version uint64
	for _, a := range stubs {
		version = max(version, a.JobVersion)
	}
	for _, a := range stubs {
		if !terminal(a) {
			running = append(running, a)
		}
		if a.NextAllocation == "" && a.JobVersion == version {
			last = append(last, a)
		}
	}
	if len(running) == 0 {
		running = last
	}
	slices.SortFunc(running, func(a, b *api.AllocationListStub) int {
		return strings.Compare(a.Name+a.ID, b.Name+b.ID)
	})
	return running
}
