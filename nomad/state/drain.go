package state

import (
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// drain is one change to the drain of a node.
type drain struct {
	id       string
	update   nomad.DrainUpdate
	event    *nomad.NodeEvent
	at       int64 // seconds since 1970
	meta     map[string]string
	accessor string
}

// UpdateNodeDrain starts, changes or ends the drain of a node.
func (s *Store) UpdateNodeDrain(index uint64, req *message.NodeUpdateDrainRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		return t.setDrain(drain{req.NodeID, nomad.DrainUpdate{DrainStrategy: req.DrainStrategy, MarkEligible: req.MarkEligible},
			req.NodeEvent, req.UpdatedAt, req.Meta, req.UpdatedBy})
	})
}

// UpdateNodeDrains is UpdateNodeDrain for several nodes. The drainer uses it.
func (s *Store) UpdateNodeDrains(index uint64, req *message.BatchNodeUpdateDrainRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, id := range slices.Sorted(maps.Keys(req.Updates)) {
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

// setDrain changes the drain of one node. A draining node is ineligible. After the drain it
// becomes eligible only if the request sets MarkEligible.
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
		appendEvent(n, t.Index, d.event)
	})
}

// drainMetadata returns the LastDrain of n after the change d.
func drainMetadata(n *nomad.Node, d drain) *nomad.DrainMetadata {
	at := time.Unix(d.at, 0).UTC()
	last := nomad.DrainMetadata{StartedAt: at}
	if n.DrainStrategy != nil && n.LastDrain != nil {
		last = *n.LastDrain
	}
	last.UpdatedAt = at
	last.Status = nomad.DrainStatusDraining
	byDrainer := d.accessor == "" && d.meta == nil // a caller has an accessor, or metadata that may be empty
	if d.accessor != "" {
		last.AccessorID = d.accessor
	}
	if len(d.meta) > 0 {
		last.Meta = d.meta
	}
	switch {
	case d.update.DrainStrategy != nil:
	case n.DrainStrategy == nil:
		return n.LastDrain // the node was not draining
	case byDrainer:
		last.Status = nomad.DrainStatusComplete
	default:
		last.Status = nomad.DrainStatusCanceled
	}
	return &last
}
