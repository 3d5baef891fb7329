package allocs

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Delays between attempts to pull allocations.
const (
	pullBackoffMin = 20 * time.Millisecond
	pullBackoffMax = 5 * time.Second
)

// pull runs blocking queries for the allocations of this node, and applies the results.
func (s *Set) pull(ctx context.Context) error {
	back := backoff.Backoff{Min: pullBackoffMin, Max: pullBackoffMax}
	var last pulled
	for {
		next, err := s.pullOnce(ctx, last)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			last = next
			back.Reset()
			continue
		}
		s.cfg.Node.PullFailed(err)
		s.log.Warn("pull allocations", "err", err)
		if err := back.WaitJitter(ctx); err != nil {
			return err
		}
	}
}

// pulled describes the last answer that was applied to the node. The servers compare both with their state: an index does
// not show that allocations were deleted before the next query.
type pulled struct {
	index uint64
	count int
}

// pullOnce waits for a server state after the last one and applies it to the node. The first answer
// must not be stale, because allocations missing from it are stopped. If the servers' state was
// replaced by an older one, it may list ended allocations as running, so all statuses are sent
// again.
func (s *Set) pullOnce(ctx context.Context, last pulled) (next pulled, err error) {
	req := s.request()
	req.AllocCount = last.count
	req.MinQueryIndex = last.index
	req.AllowStale = last.index > 0
	var resp message.NodeClientAllocsResponse
	if err := s.cfg.Calls.Call(ctx, "Node.GetClientAllocs", &req, &resp); err != nil {
		return last, fmt.Errorf("list allocations: %w", err)
	}
	resp.Index = max(resp.Index, 1) // a request with index 0 does not wait
	switch {
	case resp.Index < last.index:
		// Either a server that lags behind or a replaced state: only the leader can distinguish them.
		return pulled{}, nil
	case resp.Index == last.index:
		return last, nil
	}
	replaced := s.restoredAt != nil && *s.restoredAt != resp.RestoreIndex
	wanted := s.outdated(resp.Allocs, replaced)
	var fetched []*nomad.Allocation
	if len(wanted) > 0 {
		if fetched, err = s.fetch(ctx, wanted); err != nil {
			return last, err
		}
	}
	s.apply(resp.Allocs, fetched)
	if s.restoredAt == nil {
		s.removeUncommitted()
	}
	if replaced {
		s.log.Info("the servers restored an older state: sending the allocation statuses again")
		s.resendListed(resp.Allocs)
		s.cfg.Node.StateReplaced()
	}
	s.restoredAt = &resp.RestoreIndex
	return pulled{resp.Index, len(resp.Allocs)}, nil
}

// request returns a query for the allocations of this node, which any server may answer.
func (s *Set) request() message.NodeSpecificRequest {
	id := s.cfg.Calls.Identity
	return message.NodeSpecificRequest{NodeID: id.ID, SecretID: id.Secret(), QueryOptions: message.QueryOptions{AllowStale: true}}
}

// fetch gets full allocations, each at least as new as in wanted.
func (s *Set) fetch(ctx context.Context, wanted map[string]uint64) ([]*nomad.Allocation, error) {
	req := message.AllocsGetRequest{QueryOptions: message.QueryOptions{AllowStale: true}}
	for id, index := range wanted {
		req.AllocIDs = append(req.AllocIDs, id)
		req.MinQueryIndex = max(req.MinQueryIndex, index-1)
	}
	var resp message.AllocsGetResponse
	if err := s.cfg.Calls.Call(ctx, "Alloc.GetAllocs", &req, &resp); err != nil {
		return nil, fmt.Errorf("get allocations: %w", err)
	}
	for _, a := range resp.Allocs {
		if a.AllocModifyIndex < wanted[a.ID] {
			return nil, fmt.Errorf("get allocations: %s is older than announced", a.ID)
		}
	}
	return resp.Allocs, nil
}
