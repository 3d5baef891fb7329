package monitor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Drain follows the drain of a node until it ends and the allocations that it stops have stopped. A
// canceled drain is an ExitError with code 1.
func (m *Monitor) Drain(ctx context.Context, nodeID string) error {
	m.header("Monitoring the drain of node %q: Ctrl-C ends the monitor, not the drain", m.id(nodeID))
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	nodes, allocs, failed := make(chan *api.Node), make(chan []*api.Allocation), make(chan error, 2)
	all.Go(func() {
		failed <- follow(ctx, nodes, func(index uint64) (*api.Node, *api.QueryMeta, error) {
			return m.client.Nodes().Info(nodeID, m.query(ctx, index))
		})
	})
	all.Go(func() {
		failed <- follow(ctx, allocs, func(index uint64) ([]*api.Allocation, *api.QueryMeta, error) {
			return m.client.Nodes().Allocations(nodeID, m.query(ctx, index))
		})
	})
	d := &drain{m: m, id: m.id(nodeID), shown: map[string]allocView{}}
	for {
		var err error
		select {
		case n := <-nodes:
			if err = d.node(n); err == nil && d.complete {
				// The list may be older than the end of the drain.
				var list []*api.Allocation
				if list, _, err = m.client.Nodes().Allocations(nodeID, m.query(ctx, 0)); err == nil {
					d.allocs(list)
				}
			}
		case list := <-allocs:
			d.allocs(list)
		case err = <-failed:
			return fmt.Errorf("Error monitoring the drain: %w", err)
		}
		if err != nil {
			return err
		}
		if d.complete && d.leaving == 0 {
			m.header("All allocations that left node %q have stopped", d.id)
			return nil
		}
	}
}

// follow sends each version of a value that a blocking query returns.
func follow[T any](ctx context.Context, to chan<- T, read func(index uint64) (T, *api.QueryMeta, error)) error {
	var index uint64
	for {
		v, meta, err := read(index)
		if err != nil {
			return err
		}
		index = meta.LastIndex
		select {
		case to <- v:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drain is what the monitor has printed.
type drain struct {
	m        *Monitor
	id       string
	complete bool
	leaving  int // allocations that must stop and have not
	listed   bool
	shown    map[string]allocView
}

// allocView is the part of an allocation that is printed.
type allocView struct {
	marked, stopping bool
	status           string
}

// node prints the end of the drain.
func (d *drain) node(n *api.Node) error {
	switch {
	case n.DrainStrategy != nil || d.complete:
		return nil
	case n.LastDrain != nil && n.LastDrain.Status == api.DrainStatusCanceled:
		return &term.ExitError{Code: 1, Err: fmt.Errorf("The drain of node %q was canceled", d.id)}
	}
	d.complete = true
	d.m.header("Drain complete for node %q", d.id)
	return nil
}

// allocs prints the changes of the allocations since the last list. Of the first list it prints the live ones that
// have to leave.
func (d *drain) allocs(list []*api.Allocation) {
	d.leaving = 0
	slices.SortFunc(list, func(a, b *api.Allocation) int { return cmp.Compare(a.ID, b.ID) })
	for _, a := range list {
		move := a.DesiredTransition.Migrate
		now := allocView{marked: move != nil && *move, status: a.ClientStatus,
			stopping: a.DesiredStatus == api.AllocDesiredStatusStop || a.DesiredStatus == api.AllocDesiredStatusEvict}
		over := ended(a.ClientStatus)
		if !over && (now.marked || now.stopping) {
			d.leaving++
		}
		was, known := d.shown[a.ID]
		d.shown[a.ID] = now
		if !known && (over || !d.listed) {
			was = allocView{status: a.ClientStatus, marked: over && now.marked, stopping: over && now.stopping}
		}
		d.print(a.ID, was, now)
	}
	d.listed = true
}

func (d *drain) print(id string, was, now allocView) {
	if now.marked && !was.marked {
		d.m.line("Alloc %q marked for migration", d.m.id(id))
	}
	if now.stopping && !was.stopping {
		d.m.line("Alloc %q draining", d.m.id(id))
	}
	if now.status != was.status {
		d.m.line("Alloc %q status %s -> %s", d.m.id(id), cmp.Or(was.status, "new"), now.status)
	}
}

// ended reports whether the client status is final.
func ended(status string) bool {
	return slices.Contains([]string{api.AllocClientStatusComplete, api.AllocClientStatusFailed, api.AllocClientStatusLost}, status)
}
