package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

// Purged nodes are rows of the table of indexes, as introductions are: snapshots have no
// record type for them, and a reader that does not know such a row keeps it. The key is
// purged/<node ID>/<time of the purge>; the value is the index of the purge.
const purgedPrefix = "purged/"

// maxPurged bounds the list. Beyond it the oldest entries are dropped: their identities
// have ended by themselves then, unless as many nodes were purged within a day.
const maxPurged = 10_000

// Purged reports whether an operator purged the node and it was not admitted since, and
// when, in seconds since 1970. The time is zero when the entry in the log has none.
func (s *Snapshot) Purged(ws memdb.WatchSet, id string) (at int64, ok bool) {
	return purgedAt(s.tx, ws, id)
}

func purgedAt(tx reader, ws memdb.WatchSet, id string) (at int64, ok bool) {
	own := purgedPrefix + id + "/"
	for row := range indexes.prefixed(tx, ws, primary, prefixOf(own)) {
		n, err := strconv.ParseInt(strings.TrimPrefix(row.Key, own), 10, 64)
		if err != nil {
			continue // not written by this package
		}
		at, ok = max(at, n), true
	}
	return at, ok
}

// purge adds a node to the list.
func (t *txn) purge(id string, at int64) {
	t.unpurge(id)
	key := fmt.Sprintf("%s%s/%d", purgedPrefix, id, max(at, 0))
	indexes.check(t.Insert(indexes.name, &nomad.IndexEntry{Key: key, Value: t.index}))
}

// unpurge removes a node from the list.
func (t *txn) unpurge(id string) {
	for row := range indexes.prefixed(t, nil, primary, prefixOf(purgedPrefix+id+"/")) {
		indexes.check(t.Delete(indexes.name, row))
	}
}

// trimPurged drops the oldest entries beyond the bound.
func (t *txn) trimPurged() {
	rows := slices.Collect(indexes.prefixed(t, nil, primary, prefixOf(purgedPrefix)))
	if len(rows) <= maxPurged {
		return
	}
	slices.SortStableFunc(rows, func(a, b *nomad.IndexEntry) int { return int(int64(a.Value) - int64(b.Value)) })
	for _, row := range rows[:len(rows)-maxPurged] {
		indexes.check(t.Delete(indexes.name, row))
	}
}

// admitNode judges the registration of a node by what the server put into the entry.
// Under strict introduction a node keeps the pool, the datacenter and the name with which
// it was admitted, and a purged node is unknown until it is introduced.
func (t *txn) admitNode(req *nomad.NodeRegisterRequest, n, old *nomad.Node) error {
	same := old != nil && old.SameAdmission(n)
	purged, listed := purgedAt(t, nil, n.ID)
	switch {
	case same:
		return nil
	case req.Introduction != nil && req.Strict && listed && req.Introduction.IssuedAt < purged:
		return nomad.Denied("the introduction of node %s is older than its purge", n.ID)
	case req.Introduction != nil:
		if err := t.useIntroduction(req.Introduction, n.StatusUpdatedAt); err != nil {
			return err
		}
	case !req.Strict, old == nil && req.ByIdentity && !listed:
	default:
		return nomad.Denied("node %s was not introduced", n.ID)
	}
	if listed {
		t.unpurge(n.ID)
	}
	return nil
}

// Deregistration is the removal of nodes.
type Deregistration struct {
	IDs []string
	// Purge means that an operator removes them, at PurgedAt: they go on the list.
	Purge    bool
	PurgedAt int64
}

// DeregisterNodes removes nodes; all of them must exist. A node that is ineligible or
// drains goes on the list too when the leader collects it: it would come back eligible.
func (s *Store) DeregisterNodes(index uint64, d Deregistration) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if len(d.IDs) == 0 {
			return fmt.Errorf("deregister nodes: no node ID")
		}
		for _, id := range d.IDs {
			n := nodes.get(t, nil, keyOf(id))
			if n == nil {
				return fmt.Errorf("%w: %s", nomad.ErrNodeNotFound, id)
			}
			nodes.delete(t, n)
			if d.Purge || n.DrainStrategy != nil || n.SchedulingEligibility == nomad.NodeSchedulingIneligible {
				t.purge(id, d.PurgedAt)
				t.changes.Purged = append(t.changes.Purged, id)
			}
		}
		t.trimPurged()
		return nil
	})
}
