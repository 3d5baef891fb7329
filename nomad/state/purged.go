package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// Purged nodes are rows of the index table, because snapshots have no record type for them.
// Readers that do not know such a row keep it. The key is purged/<node ID>/<time of the purge>.
// The value is the index of the purge.
const purgedPrefix = "purged/"

// maxPurged is the maximum length of the list of purged nodes. Beyond it the oldest entries are
// dropped. The identities of those nodes have expired by then, unless as many nodes were purged
// within a day.
const maxPurged = 10_000

// Purged reports whether the node is on the list of purged nodes, and the time of the purge in
// seconds since 1970. The time is zero if the log entry has none.
func (s *Snapshot) Purged(ws memdb.WatchSet, id string) (at int64, ok bool) {
	return purgedAt(s.tx, ws, id)
}

func purgedAt(tx table.Reader, ws memdb.WatchSet, id string) (at int64, ok bool) {
	own := purgedPrefix + id + "/"
	for row := range table.Indexes.Prefixed(tx, ws, table.Primary, table.PrefixOf(own)) {
		n, err := strconv.ParseInt(strings.TrimPrefix(row.Key, own), 10, 64)
		if err != nil {
			continue // not written by this package
		}
		at, ok = max(at, n), true
	}
	return at, ok
}

// purge adds a node to the list of purged nodes.
func (t *txn) purge(id string, at int64) {
	t.unpurge(id)
	key := fmt.Sprintf("%s%s/%d", purgedPrefix, id, max(at, 0))
	table.Indexes.Put(t.Txn, &nomad.IndexEntry{Key: key, Value: t.Index})
}

// unpurge removes a node from the list of purged nodes.
func (t *txn) unpurge(id string) {
	for row := range table.Indexes.Prefixed(t, nil, table.Primary, table.PrefixOf(purgedPrefix+id+"/")) {
		table.Indexes.Delete(t.Txn, row)
	}
}

// trimPurged drops the oldest entries beyond maxPurged.
func (t *txn) trimPurged() {
	rows := slices.Collect(table.Indexes.Prefixed(t, nil, table.Primary, table.PrefixOf(purgedPrefix)))
	if len(rows) <= maxPurged {
		return
	}
	slices.SortStableFunc(rows, func(a, b *nomad.IndexEntry) int { return int(int64(a.Value) - int64(b.Value)) })
	for _, row := range rows[:len(rows)-maxPurged] {
		table.Indexes.Delete(t.Txn, row)
	}
}

// admitNode decides whether a node may register, from the admission data that the server put into
// the request. Under strict introduction, a node needs a new introduction to change its pool,
// datacenter or name. A purged node then needs one too.
func (t *txn) admitNode(req *message.NodeRegisterRequest, n, old *nomad.Node) error {
	same := old != nil && old.SameAdmission(n)
	purged, listed := purgedAt(t, nil, n.ID)
	switch {
	case same:
		return nil
	case req.Introduction != nil && req.Strict && listed && req.Introduction.IssuedAt < purged:
		return apierror.Denied("introduction token of node %s was issued before the node was purged", n.ID)
	case req.Introduction != nil:
		if err := t.useIntroduction(req.Introduction, n.StatusUpdatedAt); err != nil {
			return err
		}
	case !req.Strict, old == nil && req.ByIdentity && !listed:
	default:
		return apierror.Denied("node %s has no introduction token", n.ID)
	}
	if listed {
		t.unpurge(n.ID)
	}
	return nil
}

// Deregistration describes a removal of nodes.
type Deregistration struct {
	IDs []string
	// Purge means that an operator purges the nodes at PurgedAt. They go on the list of purged
	// nodes.
	Purge    bool
	PurgedAt int64
}

// DeregisterNodes removes nodes, all of which must exist. Purged nodes go on the list of purged
// nodes. Ineligible and draining nodes do so too, because they would otherwise register again as
// eligible.
func (s *Store) DeregisterNodes(index uint64, d Deregistration) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if len(d.IDs) == 0 {
			return fmt.Errorf("deregister nodes: missing node ID")
		}
		var lost []string
		t.at = nanos(d.PurgedAt)
		for _, id := range d.IDs {
			n := nodes.Get(t, nil, table.KeyOf(id))
			if n == nil {
				return fmt.Errorf("%w: %s", apierror.ErrNodeNotFound, id)
			}
			nodes.Delete(t.Txn, n)
			t.dropVolumesOf(n)
			t.followInstances(id)
			lost = append(lost, nomad.LostSchemas(n, nil)...)
			if d.Purge || n.DrainStrategy != nil || n.SchedulingEligibility == nomad.NodeSchedulingIneligible {
				t.purge(id, d.PurgedAt)
				t.changes.Purged = append(t.changes.Purged, id)
			}
		}
		t.trimPurged()
		t.dropSchemas(lost)
		return nil
	})
}
