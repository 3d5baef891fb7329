package client

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// Delays between the end of an allocation and the check. Creating directories is slow just
// after many were removed, so new allocations go first.
const (
	gcQuiet    = time.Second      // after the last end
	gcPatience = 10 * time.Second // after the first unchecked end
)

// collector removes finished allocations: the oldest first when there are too many allocations
// or too little disk space, and all of them on request.
type collector struct {
	cfg  GCConfig
	dir  string // on the disk that is measured
	set  *allocSet
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
func (g *collector) remove(list []*held, why string) {
	slots := make(chan struct{}, max(1, g.cfg.ParallelDestroys))
	var wg sync.WaitGroup
	for _, h := range list {
		if g.set.claim(h) != nil {
			continue // removed by another goroutine, or in use
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			g.removeClaimed(h, why)
		})
	}
	wg.Wait()
}

func (g *collector) removeClaimed(h *held, why string) {
	g.log.Debug("collect allocation", "alloc", h.id, "why", why)
	g.set.remove(h)
}

// all removes every finished allocation.
func (g *collector) all() {
	_, finished := g.set.finished()
	g.remove(finished, "requested")
}

// one removes a finished allocation. It waits for the runner to return.
func (g *collector) one(ctx context.Context, id string) error {
	h, err := g.set.find(id)
	if err != nil {
		return err
	}
	status := nomad.Allocation{ClientStatus: h.runner.State().ClientStatus}
	if !status.ClientTerminalStatus() {
		return nomad.Errorf(http.StatusBadRequest, "allocation %s is not terminal", id)
	}
	select {
	case <-h.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	switch err := g.set.claim(h); err {
	case nil:
		g.removeClaimed(h, "requested")
		return nil
	case errRemoving:
		return nil
	default:
		return nomad.Errorf(http.StatusConflict, "allocation %s: %v: try again later", id, err)
	}
}

// finished returns the number of allocations, and the ended ones, oldest first.
func (s *allocSet) finished() (all int, list []*held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		if !h.endedAt.IsZero() && !h.removing && h.holds == 0 {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(a, b *held) int { return a.endedAt.Compare(b.endedAt) })
	return len(s.held), list
}
