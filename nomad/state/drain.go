package state

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// drain is one change of the drain of a node.
type drain struct {
	id       string
	update   nomad.DrainUpdate
	event    *nomad.NodeEvent
	at       int64 // seconds since 1970
	meta     map[string]string
	accessor string
}

// UpdateNodeDrain begins, changes or ends the drain of a node.
func (s *Store) UpdateNodeDrain(index uint64, req *nomad.NodeUpdateDrainRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		return t.setDrain(drain{req.NodeID, nomad.DrainUpdate{DrainStrategy: req.DrainStrategy, MarkEligible: req.MarkEligible},
			req.NodeEvent, req.UpdatedAt, req.Meta, req.UpdatedBy})
	})
}

// UpdateNodeDrains is UpdateNodeDrain for several nodes, as the drainer does it.
func (s *Store) UpdateNodeDrains(index uint64, req *nomad.BatchNodeUpdateDrainRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, id := range sortedKeys(req.Updates) {
			u := req.Updates[id]
			if u == nil {
				continue
			}
			if err := t.setDrain(drain{id: id, update: *u, event: req.NodeEvents[id], at: req.UpdatedAt}); err != nil {
				return err
			}
		}
		return nil
	})
}

// setDrain changes the drain of one node. A drain keeps new allocations away;
// its end lets them come again only when it was asked for.
func (t *txn) setDrain(d drain) error {
	return t.editNode(d.id, func(n *nomad.Node) {
		n.LastDrain = drainMetadata(n, d)
		n.DrainStrategy = d.update.DrainStrategy
		switch {
		case n.DrainStrategy != nil:
			n.SchedulingEligibility = nomad.NodeSchedulingIneligible
		case d.update.MarkEligible:
			n.SchedulingEligibility = nomad.NodeSchedulingEligible
		}
		n.StatusUpdatedAt = d.at
		appendEvent(n, t.index, d.event)
	})
}

// drainMetadata returns what is remembered of the last drain of n.
func drainMetadata(n *nomad.Node, d drain) *nomad.DrainMetadata {
	at := time.Unix(d.at, 0).UTC()
	last := nomad.DrainMetadata{StartedAt: at}
	if n.DrainStrategy != nil && n.LastDrain != nil {
		last = *n.LastDrain
	}
	last.UpdatedAt = at
	last.Status = nomad.DrainStatusDraining
	if d.accessor != "" {
		last.AccessorID = d.accessor
	}
	if d.meta != nil {
		last.Meta = d.meta
	}
	switch {
	case d.update.DrainStrategy != nil:
	case n.DrainStrategy == nil:
		return n.LastDrain // no drain ends: there was none
	case d.accessor == "" && d.meta == nil:
		last.Status = nomad.DrainStatusComplete // the drainer's own word
	default:
		last.Status = nomad.DrainStatusCanceled
	}
	return &last
}
