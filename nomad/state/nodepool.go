package state

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var nodePools = &table.Table[nomad.NodePool]{
	Name:   TableNodePools,
	Events: true,
	ID:     func(p *nomad.NodePool) table.Key { return table.KeyOf(p.Name) },
}

// NodePool returns the node pool, or nil if there is none.
func (s *Snapshot) NodePool(ws memdb.WatchSet, name string) *nomad.NodePool {
	return nodePools.Get(s.tx, ws, table.KeyOf(name))
}

// NodePools returns every node pool, by name.
func (s *Snapshot) NodePools(ws memdb.WatchSet) iter.Seq[*nomad.NodePool] {
	return nodePools.All(s.tx, ws)
}

// UpsertNodePools stores node pools. Built-in pools cannot be modified.
func (s *Store) UpsertNodePools(index uint64, req *message.NodePoolUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, p := range req.NodePools {
			if builtinPool(p.Name) {
				return fmt.Errorf("modifying node pool %q is not allowed", p.Name)
			}
			stored := *p
			t.putNodePool(&stored)
		}
		return nil
	})
}

// putNodePool stores a node pool that the caller owns.
func (t *txn) putNodePool(p *nomad.NodePool) {
	canonicalPool(p)
	p.CreateIndex, p.ModifyIndex = t.Index, t.Index
	if old := nodePools.Get(t, nil, table.KeyOf(p.Name)); old != nil {
		p.CreateIndex = old.CreateIndex
	}
	nodePools.Put(t.Txn, p)
}

// DeleteNodePools removes node pools that are not built in and not in use.
func (s *Store) DeleteNodePools(index uint64, req *message.NodePoolDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, name := range req.Names {
			p := nodePools.Get(t, nil, table.KeyOf(name))
			if p == nil {
				return fmt.Errorf("node pool %s not found", name)
			}
			if builtinPool(name) {
				return fmt.Errorf("deleting node pool %q is not allowed", name)
			}
			if err := t.poolUnused(name); err != nil {
				return err
			}
			nodePools.Delete(t.Txn, p)
		}
		return nil
	})
}

// poolUnused returns an error if the pool contains a node or a job that is not dead.
func (t *txn) poolUnused(name string) error {
	for n := range nodes.By(t, nil, "node_pool", table.KeyOf(name)) {
		return fmt.Errorf("node pool %q has nodes in it, as %s", name, n.ID)
	}
	for j := range jobs.All(t, nil) {
		if j.NodePool == name && j.Status != nomad.JobStatusDead {
			return fmt.Errorf("node pool %q has jobs in it, as %q", name, j.ID)
		}
	}
	return nil
}

// builtinPool reports whether every cluster has the pool.
func builtinPool(name string) bool {
	return name == nomad.NodePoolAll || name == nomad.NodePoolDefault
}

// canonicalPool sets fields that older servers leave out. The identity TTL is never zero, because
// every node identity must expire. Built-in pools have no hash: other regions replicate a pool
// when its hash differs, and built-in pools cannot be modified.
func canonicalPool(p *nomad.NodePool) {
	if p.NodeIdentityTTL <= 0 {
		p.NodeIdentityTTL = nomad.DefaultNodePoolNodeIdentityTTL
	}
	if p.Hash = nil; !builtinPool(p.Name) {
		p.Hash = poolHash(p)
	}
}

// poolHash returns a digest of the fields that an operator can set.
func poolHash(p *nomad.NodePool) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %d\n", p.Name, p.Description, p.NodeIdentityTTL)
	for _, k := range slices.Sorted(maps.Keys(p.Meta)) {
		fmt.Fprintf(h, "%q %q\n", k, p.Meta[k])
	}
	if c := p.SchedulerConfiguration; c != nil {
		fmt.Fprintf(h, "%q\n", c.SchedulerAlgorithm)
		if c.MemoryOversubscriptionEnabled != nil {
			fmt.Fprintf(h, "%t\n", *c.MemoryOversubscriptionEnabled)
		}
	}
	return h.Sum(nil)
}
