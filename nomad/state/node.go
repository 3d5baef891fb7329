package state

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var nodes = &table.Table[nomad.Node]{
	Name:   TableNodes,
	Events: true,
	ID:     func(n *nomad.Node) table.Key { return table.KeyOf(n.ID) },
	Indexes: []table.Index[nomad.Node]{
		{Name: "secret_id", Key: func(n *nomad.Node) table.Key { return table.Optional(n.SecretID) }},
		{Name: "node_pool", Key: func(n *nomad.Node) table.Key { return table.KeyOf(n.NodePool) }},
		{Name: "signing_key", Key: func(n *nomad.Node) table.Key { return table.Optional(n.IdentitySigningKeyID) }},
	},
}

// Node returns the node, or nil if there is none.
func (s *Snapshot) Node(ws memdb.WatchSet, id string) *nomad.Node {
	return nodes.Get(s.tx, ws, table.KeyOf(id))
}

// NodeBySecret returns the node that holds the secret ID.
func (s *Snapshot) NodeBySecret(ws memdb.WatchSet, secret string) *nomad.Node {
	for n := range nodes.By(s.tx, ws, "secret_id", table.KeyOf(secret)) {
		return n
	}
	return nil
}

// Nodes returns every node.
func (s *Snapshot) Nodes(ws memdb.WatchSet) iter.Seq[*nomad.Node] { return nodes.All(s.tx, ws) }

// NodesByPrefix returns the nodes whose ID begins with p.
func (s *Snapshot) NodesByPrefix(ws memdb.WatchSet, p string) iter.Seq[*nomad.Node] {
	return nodes.Prefixed(s.tx, ws, table.Primary, table.PrefixOf(p))
}

// NodesByPool returns the nodes of a pool. The pool all contains every node.
func (s *Snapshot) NodesByPool(ws memdb.WatchSet, pool string) iter.Seq[*nomad.Node] {
	if pool == nomad.NodePoolAll {
		return s.Nodes(ws)
	}
	return nodes.By(s.tx, ws, "node_pool", table.KeyOf(pool))
}

// RegisterNode adds or updates a node. An existing node keeps the fields that the servers own,
// such as its drain, eligibility and events.
func (s *Store) RegisterNode(index uint64, req *message.NodeRegisterRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if req.Node == nil || req.Node.ID == "" {
			return fmt.Errorf("register node: missing node ID")
		}
		n := *req.Node
		canonicalNode(&n)
		n.CreateIndex, n.ModifyIndex = index, index
		old := nodes.Get(t, nil, table.KeyOf(n.ID))
		if old != nil && len(old.Key) > 0 && len(n.Key) > 0 && !bytes.Equal(old.Key, n.Key) {
			return apierror.Denied("node %s is bound to another key", n.ID)
		}
		if err := t.admitNode(req, &n, old); err != nil {
			return err
		}
		if old != nil {
			session, err := succeed(&n, old, req.SessionBefore)
			if err != nil {
				return err
			}
			n.Session = session
			keepServerSide(&n, old)
			if unresponsive(n.Status) && !unresponsive(old.Status) {
				n.LastMissedHeartbeatIndex = index
			}
		} else {
			n.Session = firstSession(&n)
			n.Events = nil
			appendEvent(&n, index, &nomad.NodeEvent{Message: "Node registered",
				Subsystem: nomad.NodeEventSubsystemCluster, Timestamp: time.Unix(n.StatusUpdatedAt, 0).UTC()})
		}
		appendEvent(&n, index, req.NodeEvent)
		if req.CreateNodePool && nodePools.Get(t, nil, table.KeyOf(n.NodePool)) == nil {
			t.putNodePool(&nomad.NodePool{Name: n.NodePool})
		}
		t.putNode(&n)
		t.followVolumes(&n)
		t.at = nanos(n.StatusUpdatedAt)
		t.followInstances(n.ID)
		t.dropSchemas(nomad.LostSchemas(old, &n))
		return nil
	})
}

// keepServerSide copies the fields that the servers own from old to n.
func keepServerSide(n, old *nomad.Node) {
	n.CreateIndex = old.CreateIndex
	n.Events = old.Events
	n.DrainStrategy = old.DrainStrategy
	n.SchedulingEligibility = old.SchedulingEligibility
	n.LastDrain = old.LastDrain
	n.LastMissedHeartbeatIndex = old.LastMissedHeartbeatIndex
	n.LastAllocUpdateIndex = old.LastAllocUpdateIndex
	if len(n.Key) == 0 { // servers of other projects drop it
		n.Key = old.Key
	}
	n.IdentitiesSince = max(n.IdentitiesSince, old.IdentitiesSince)
	if n.IdentitySigningKeyID == "" {
		n.IdentitySigningKeyID = old.IdentitySigningKeyID
	}
}

// canonicalNode sets defaults for fields that older clients and snapshots leave out.
func canonicalNode(n *nomad.Node) {
	if n.NodePool == "" {
		n.NodePool = nomad.NodePoolDefault
	}
	if n.SchedulingEligibility == "" {
		n.SchedulingEligibility = nomad.NodeSchedulingEligible
		if n.DrainStrategy != nil {
			n.SchedulingEligibility = nomad.NodeSchedulingIneligible
		}
	}
}

// unresponsive reports whether the status means that the node has missed heartbeats.
func unresponsive(status string) bool {
	return status == nomad.NodeStatusDown || status == nomad.NodeStatusDisconnected
}

// putNode stores a node and adds it to the changes.
func (t *txn) putNode(n *nomad.Node) {
	nodes.Put(t.Txn, n)
	t.changes.Nodes = append(t.changes.Nodes, n)
}

// appendEvent appends an event and drops the oldest events beyond the limit. It never modifies
// the slice of an older row.
func appendEvent(n *nomad.Node, index uint64, e *nomad.NodeEvent) {
	if e == nil {
		return
	}
	stamped := *e
	stamped.CreateIndex = index
	kept := n.Events
	if over := len(kept) + 1 - nomad.MaxRetainedNodeEvents; over > 0 {
		kept = kept[over:]
	}
	n.Events = append(slices.Clip(slices.Clone(kept)), &stamped)
}

// editNode calls edit with a copy of the node, and stores the copy.
func (t *txn) editNode(id string, edit func(*nomad.Node)) error {
	old := nodes.Get(t, nil, table.KeyOf(id))
	if old == nil {
		return fmt.Errorf("%w: %s", apierror.ErrNodeNotFound, id)
	}
	n := *old
	n.ModifyIndex = t.Index
	edit(&n)
	t.putNode(&n)
	return nil
}

// UpdateNodeStatus records the status of a node after a heartbeat or a missed heartbeat.
func (s *Store) UpdateNodeStatus(index uint64, req *message.NodeUpdateStatusRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		return t.editNode(req.NodeID, func(n *nomad.Node) {
			if unresponsive(req.Status) && !unresponsive(n.Status) {
				n.LastMissedHeartbeatIndex = index
			}
			n.Status = req.Status
			n.StatusUpdatedAt = req.UpdatedAt
			if req.IdentitySigningKeyID != "" {
				n.IdentitySigningKeyID = req.IdentitySigningKeyID
			}
			appendEvent(n, index, req.NodeEvent)
			t.followVolumes(n)
		})
	})
}

// UpdateNodeEligibility sets the scheduling eligibility of a node. A draining node cannot become
// eligible.
func (s *Store) UpdateNodeEligibility(index uint64, req *message.NodeUpdateEligibilityRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		n := nodes.Get(t, nil, table.KeyOf(req.NodeID))
		if n != nil && n.DrainStrategy != nil && req.Eligibility == nomad.NodeSchedulingEligible {
			return fmt.Errorf("can not set node's scheduling eligibility to eligible while it is draining")
		}
		return t.editNode(req.NodeID, func(n *nomad.Node) {
			n.SchedulingEligibility = req.Eligibility
			n.StatusUpdatedAt = req.UpdatedAt
			appendEvent(n, index, req.NodeEvent)
		})
	})
}

// AddNodeEvents appends events to nodes.
func (s *Store) AddNodeEvents(index uint64, req *message.EmitNodeEventsRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, id := range slices.Sorted(maps.Keys(req.NodeEvents)) {
			err := t.editNode(id, func(n *nomad.Node) {
				for _, e := range req.NodeEvents[id] {
					appendEvent(n, index, e)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
