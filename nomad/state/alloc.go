package state

import (
	"iter"
	"maps"
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var allocs = &table.Table[nomad.Allocation]{
	Name:   TableAllocs,
	Events: true,
	ID:     func(a *nomad.Allocation) table.Key { return table.KeyOf(a.ID) },
	Indexes: []table.Index[nomad.Allocation]{
		{Name: "create", Key: func(a *nomad.Allocation) table.Key { return table.Key{}.Number(a.CreateIndex) }},
		{Name: "node", Key: func(a *nomad.Allocation) table.Key { return nodeKey(a.NodeID, a.ClientTerminalStatus()) }},
		{Name: "job", Key: func(a *nomad.Allocation) table.Key { return table.KeyOf(a.Namespace, a.JobID) }},
		{Name: "eval", Key: func(a *nomad.Allocation) table.Key { return table.KeyOf(a.EvalID) }},
		{Name: "deployment", Key: func(a *nomad.Allocation) table.Key { return table.Optional(a.DeploymentID) }},
		{Name: "signing_key", Key: func(a *nomad.Allocation) table.Key {
			if a.ClientTerminalStatus() && a.ServerTerminalStatus() {
				return nil // its tokens are no longer used
			}
			return table.Optional(a.SigningKeyID)
		}},
		{Name: "csi_volume", Keys: csiVolumeKeys},
	},
}

// Alloc returns the allocation, or nil if there is none.
func (s *Snapshot) Alloc(ws memdb.WatchSet, id string) *nomad.Allocation {
	return allocs.Get(s.tx, ws, table.KeyOf(id))
}

// Allocs returns every allocation.
func (s *Snapshot) Allocs(ws memdb.WatchSet) iter.Seq[*nomad.Allocation] {
	return allocs.All(s.tx, ws)
}

// AllocsByCreation returns every allocation, ordered by the index of its creation and its ID.
func (s *Snapshot) AllocsByCreation(ws memdb.WatchSet) iter.Seq[*nomad.Allocation] {
	return allocs.By(s.tx, ws, "create", nil)
}

// LatestAllocs is AllocsByCreation in reverse.
func (s *Snapshot) LatestAllocs(ws memdb.WatchSet) iter.Seq[*nomad.Allocation] {
	return allocs.Reversed(s.tx, ws, "create", nil)
}

// AllocsByPrefix returns the allocations whose ID begins with p.
func (s *Snapshot) AllocsByPrefix(ws memdb.WatchSet, p string) iter.Seq[*nomad.Allocation] {
	return allocs.Prefixed(s.tx, ws, table.Primary, table.PrefixOf(p))
}

// nodeKey is the index key of the allocations of a node. Allocations that their client has not ended
// sort first. A node with many short tasks has thousands of ended allocations, and placement reads
// only the others.
func nodeKey(node string, over bool) table.Key {
	k := append(append(make(table.Key, 0, len(node)+2), node...), 0)
	if over {
		return append(k, 1)
	}
	return append(k, 0)
}

// AllocsByNode returns the allocations of a node, those that their client has ended last.
func (s *Snapshot) AllocsByNode(ws memdb.WatchSet, node string) iter.Seq[*nomad.Allocation] {
	return allocs.By(s.tx, ws, "node", table.KeyOf(node))
}

// LiveAllocsByNode returns the allocations of a node that their client has not ended. Only these use
// its resources. One that is to stop uses them until its client reports the end.
func (s *Snapshot) LiveAllocsByNode(node string) iter.Seq[*nomad.Allocation] {
	return allocs.By(s.tx, nil, "node", nodeKey(node, false))
}

// HoldsWork reports whether a node has allocations that their client has not ended.
func (s *Snapshot) HoldsWork(node string) bool {
	for range s.LiveAllocsByNode(node) {
		return true
	}
	return false
}

// AllocsByJob returns the allocations of all versions of a job.
func (s *Snapshot) AllocsByJob(ws memdb.WatchSet, ns, job string) iter.Seq[*nomad.Allocation] {
	return allocs.By(s.tx, ws, "job", table.KeyOf(ns, job))
}

// AllocsByNamespace returns the allocations of all jobs of a namespace.
func (s *Snapshot) AllocsByNamespace(ws memdb.WatchSet, ns string) iter.Seq[*nomad.Allocation] {
	return allocs.By(s.tx, ws, "job", table.KeyOf(ns))
}

// AllocsByEval returns the allocations whose last create or update came from the evaluation.
func (s *Snapshot) AllocsByEval(ws memdb.WatchSet, eval string) iter.Seq[*nomad.Allocation] {
	return allocs.By(s.tx, ws, "eval", table.KeyOf(eval))
}

// AllocsByDeployment returns the allocations of a deployment.
func (s *Snapshot) AllocsByDeployment(ws memdb.WatchSet, deployment string) iter.Seq[*nomad.Allocation] {
	return allocs.By(s.tx, ws, "deployment", table.KeyOf(deployment))
}

// storeAlloc stores a, which the caller owns, in place of old. old is nil for a new allocation.
// It also updates the quota usage, the counts of the job summary in c, the counters of the
// deployment, the records of CSI plugins and the Changes. It removes the service registrations of an
// ended allocation.
func (t *txn) storeAlloc(a, old *nomad.Allocation, c counts) {
	allocs.Put(t.Txn, a)
	t.account(a, old)
	t.followPluginAlloc(a, old)
	if a.ClientTerminalStatus() {
		t.deregister("alloc", a.ID) // its client may be unable to do so
	}
	c.moved(a, old)
	t.countInDeployment(a, old)
	if old == nil {
		return
	}
	// A lost allocation frees no capacity: its node is not available.
	if a.ClientTerminalStatus() && !old.ClientTerminalStatus() && a.ClientStatus != nomad.AllocClientStatusLost {
		t.changes.Stopped = append(t.changes.Stopped, a)
	}
	if a.ClientStatus != old.ClientStatus || health(a) != health(old) {
		t.changes.Allocs = append(t.changes.Allocs, a)
	}
}

// UpdateAllocsFromClient merges client updates of allocations. It takes only the fields that the
// client owns.
func (s *Store) UpdateAllocsFromClient(index uint64, req *message.AllocUpdateRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		touched := map[nomad.NamespacedID]bool{}
		reported := map[string]bool{}
		c := counts{}
		var back []*nomad.Allocation // they were unknown
		at := int64(0)
		for _, update := range req.Alloc {
			old := allocs.Get(t, nil, table.KeyOf(update.ID))
			if old == nil {
				continue // garbage collected in the meantime
			}
			a := *old
			mergeClient(&a, update, index)
			t.storeAlloc(&a, old, c)
			if old.ClientStatus == nomad.AllocClientStatusUnknown && a.ClientStatus != nomad.AllocClientStatusUnknown {
				back, at = append(back, &a), max(at, update.ModifyTime)
			}
			reported[a.NodeID] = true
			t.at = max(t.at, update.ModifyTime)
			if a.TerminalStatus() != old.TerminalStatus() {
				touched[a.JobNamespacedID()] = true
			}
		}
		t.applyCounts(c)
		for _, id := range slices.Sorted(maps.Keys(reported)) {
			t.nodeReported(id)
		}
		t.cancelFollowups(back, at)
		for _, e := range req.Evals {
			stored := *e
			t.upsertEvals(&stored)
			touched[nomad.NamespacedID{ID: e.JobID, Namespace: e.Namespace}] = true
		}
		t.setJobStatuses(touched)
		return nil
	})
}

// mergeClient copies the fields that the client owns from update to a.
func mergeClient(a, update *nomad.Allocation, index uint64) {
	a.ClientStatus = update.ClientStatus
	a.ClientDescription = update.ClientDescription
	a.TaskStates = update.TaskStates
	if update.NetworkStatus != nil {
		a.NetworkStatus = update.NetworkStatus
	}
	if len(update.AllocStates) > 0 {
		a.AllocStates = update.AllocStates
	}
	if s := update.DeploymentStatus; s != nil && s.Healthy != nil { // nil leaves the health that an operator set
		setHealth(a, s, index)
	}
	a.ModifyIndex, a.ModifyTime = index, update.ModifyTime
}

// setHealth copies the health and its timestamp from reported. The Canary field belongs to the
// servers and does not change.
func setHealth(a *nomad.Allocation, reported *nomad.AllocDeploymentStatus, index uint64) {
	status := nomad.AllocDeploymentStatus{}
	if a.DeploymentStatus != nil {
		status = *a.DeploymentStatus
	}
	before := health(a)
	status.Healthy, status.Timestamp = reported.Healthy, reported.Timestamp
	a.DeploymentStatus = &status
	if health(a) != before {
		status.ModifyIndex = index
	}
}

// nodeReported records the first allocation update of a node after it missed heartbeats. From
// then on the node may become ready.
func (t *txn) nodeReported(id string) {
	n := nodes.Get(t, nil, table.KeyOf(id))
	if n == nil || n.LastMissedHeartbeatIndex == 0 || n.LastAllocUpdateIndex > n.LastMissedHeartbeatIndex {
		return
	}
	updated := *n
	updated.LastAllocUpdateIndex, updated.ModifyIndex = t.Index, t.Index
	nodes.Put(t.Txn, &updated)
}

// UpdateDesiredTransitions sets the desired transitions of allocations, and stores the
// evaluations that carry them out.
func (s *Store) UpdateDesiredTransitions(index uint64, req *message.AllocUpdateDesiredTransitionRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, id := range slices.Sorted(maps.Keys(req.Allocs)) {
			if a := allocs.Get(t, nil, table.KeyOf(id)); a != nil {
				t.transition(a, req.Allocs[id])
			}
		}
		touched := map[nomad.NamespacedID]bool{}
		for _, e := range req.Evals {
			stored := *e
			t.upsertEvals(&stored)
			touched[nomad.NamespacedID{ID: e.JobID, Namespace: e.Namespace}] = true
		}
		t.setJobStatuses(touched)
		return nil
	})
}

// transition merges the fields that are set in add into the desired transition of the allocation.
func (t *txn) transition(old *nomad.Allocation, add *nomad.DesiredTransition) {
	if add == nil {
		return
	}
	a := *old
	d := &a.DesiredTransition
	for _, f := range []struct{ to, From **bool }{
		{&d.Migrate, &add.Migrate},
		{&d.Reschedule, &add.Reschedule},
		{&d.ForceReschedule, &add.ForceReschedule},
		{&d.NoShutdownDelay, &add.NoShutdownDelay},
		{&d.MigrateDisablePlacement, &add.MigrateDisablePlacement},
	} {
		if *f.From != nil {
			*f.to = *f.From
		}
	}
	if add.TargetNode != "" {
		d.TargetNode = add.TargetNode
	}
	a.ModifyIndex = t.Index
	// The client fetches an allocation when this index grows.
	a.AllocModifyIndex = t.Index
	allocs.Put(t.Txn, &a)
}
