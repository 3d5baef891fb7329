package allocs

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Delays between the end of an allocation and the check. Creating directories is slow just
// after many were removed, so new allocations go first.
const (
	gcQuiet    = time.Second      // after the last end
	gcPatience = 10 * time.Second // after the first unchecked end
)

// GCConfig configures when finished allocations are removed.
type GCConfig struct {
	Interval         time.Duration
	ParallelDestroys int
	MaxAllocs        int
	DiskPercent      float64
	InodePercent     float64
}

// collector removes finished allocations: the oldest first when there are too many allocations
// or too little disk space, and all of them on request.
type collector struct {
	cfg  GCConfig
	dir  string // on the disk that is measured
	set  *Set
	log  *slog.Logger
	disk func(dir string) (usedPercent, inodePercent float64, err error)
}

// Run checks once per interval, and after allocations have ended. It tries failed removals again once per interval.
func (g *collector) Run(ctx context.Context) error {
	tick := time.NewTicker(g.cfg.Interval)
	defer tick.Stop()
	var due <-chan time.Time // nil while no allocation has ended
	var latest time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-g.set.ended:
			if due == nil {
				latest = time.Now().Add(gcPatience)
			}
			due = time.After(min(gcQuiet, time.Until(latest)))
			continue
		case <-due:
			due = nil
		case <-tick.C:
			g.set.removeAgain()
		}
		if err := g.collect(); err != nil {
			g.log.Warn("collect allocations", "err", err)
		}
	}
}

// collect removes allocations until all limits are met.
func (g *collector) collect() error {
	all, finished := g.set.finished()
	if over := all - g.cfg.MaxAllocs; over > 0 {
		n := min(over, len(finished))
		g.remove(finished[:n], "too many allocations")
		finished = finished[n:]
	}
	for len(finished) > 0 {
		used, inodes, err := g.disk(g.dir)
		if err != nil {
			return err
		}
		if !g.cfg.full(used, inodes) {
			return nil
		}
		n := min(max(1, g.cfg.ParallelDestroys), len(finished))
		g.remove(finished[:n], "the disk is full")
		finished = finished[n:]
	}
	return nil
}

// full reports whether a usage in percent is above its threshold. A usage that equals the threshold is not.
func (c GCConfig) full(used, inodes float64) bool {
	return used > c.DiskPercent || inodes > c.InodePercent
}

// remove destroys allocations in parallel.
func (g *collector) remove(list []*Entry, why string) {
	slots := make(chan struct{}, max(1, g.cfg.ParallelDestroys))
	var wg sync.WaitGroup
	for _, e := range list {
		if g.set.claim(e) != nil {
			continue // removed by another goroutine, or in use
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			g.removeClaimed(e, why)
		})
	}
	wg.Wait()
}

func (g *collector) removeClaimed(e *Entry, why string) {
	g.log.Debug("collect allocation", "alloc", e.ID, "why", why)
	g.set.remove(e)
}

// CollectAll removes every finished allocation.
func (s *Set) CollectAll() {
	_, finished := s.finished()
	s.collector.remove(finished, "requested")
}

// Collect removes a finished allocation. It waits for the runner to return.
func (s *Set) Collect(ctx context.Context, id string) error {
	e, err := s.Find(id)
	if err != nil {
		return err
	}
	status := nomad.Allocation{ClientStatus: e.Runner.State().ClientStatus}
	if !status.ClientTerminalStatus() {
		return apierror.Errorf(http.StatusBadRequest, "allocation %s is not terminal", id)
	}
	select {
	case <-e.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	switch err := s.claim(e); err {
	case nil:
		s.collector.removeClaimed(e, "requested")
		return nil
	case errRemoving:
		return nil
	default:
		return apierror.Errorf(http.StatusConflict, "allocation %s: %v: try again later", id, err)
	}
}

// finished returns the number of allocations, and the ended ones, oldest first.
func (s *Set) finished() (all int, list []*Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if !e.endedAt.IsZero() && !e.removing && e.holds == 0 {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *Entry) int { return a.endedAt.Compare(b.endedAt) })
	return len(s.entries), list
}
