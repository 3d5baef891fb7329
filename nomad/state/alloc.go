package state

import (
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

var allocs = &table[nomad.Allocation]{
	name:   TableAllocs,
	events: true,
	id:     func(a *nomad.Allocation) key { return keyOf(a.ID) },
	indexes: []index[nomad.Allocation]{
		{"node", func(a *nomad.Allocation) key { return nodeKey(a.NodeID, a.TerminalStatus()) }},
		{"job", func(a *nomad.Allocation) key { return keyOf(a.Namespace, a.JobID) }},
		{"eval", func(a *nomad.Allocation) key { return keyOf(a.EvalID) }},
		{"deployment", func(a *nomad.Allocation) key { return optional(a.DeploymentID) }},
		{"signing_key", func(a *nomad.Allocation) key {
			if a.ClientTerminalStatus() && a.ServerTerminalStatus() {
				return nil // nobody will ever show its tokens again
			}
			return optional(a.SigningKeyID)
		}},
	},
}

// Alloc returns the allocation, nil when there is none.
func (s *Snapshot) Alloc(ws memdb.WatchSet, id string) *nomad.Allocation {
	return allocs.get(s.tx, ws, keyOf(id))
}

// Allocs returns every allocation.
func (s *Snapshot) Allocs(ws memdb.WatchSet) iter.Seq[*nomad.Allocation] {
	return allocs.all(s.tx, ws)
}

// AllocsByPrefix returns the allocations whose ID begins with p.
func (s *Snapshot) AllocsByPrefix(ws memdb.WatchSet, p string) iter.Seq[*nomad.Allocation] {
	return allocs.prefixed(s.tx, ws, primary, prefixOf(p))
}

// nodeKey finds the allocations of a node: first those that are not over. Of the others
// a node of many short tasks has thousands, and no placement looks at them.
func nodeKey(node string, over bool) key {
	k := append(append(make(key, 0, len(node)+2), node...), 0)
	if over {
		return append(k, 1)
	}
	return append(k, 0)
}

// AllocsByNode returns the allocations of a node, those that are over last.
func (s *Snapshot) AllocsByNode(ws memdb.WatchSet, node string) iter.Seq[*nomad.Allocation] {
	return allocs.by(s.tx, ws, "node", keyOf(node))
}

// LiveAllocsByNode returns the allocations of a node that are not over: those that hold
// something of it.
func (s *Snapshot) LiveAllocsByNode(node string) iter.Seq[*nomad.Allocation] {
	return allocs.by(s.tx, nil, "node", nodeKey(node, false))
}

// HoldsWork says whether a node has allocations that are not over.
func (s *Snapshot) HoldsWork(node string) bool {
	for range s.LiveAllocsByNode(node) {
		return true
	}
	return false
}

// AllocsByJob returns the allocations of a job, of all its versions.
func (s *Snapshot) AllocsByJob(ws memdb.WatchSet, ns, job string) iter.Seq[*nomad.Allocation] {
	return allocs.by(s.tx, ws, "job", keyOf(ns, job))
}

// AllocsByNamespace returns the allocations of all jobs of a namespace.
func (s *Snapshot) AllocsByNamespace(ws memdb.WatchSet, ns string) iter.Seq[*nomad.Allocation] {
	return allocs.by(s.tx, ws, "job", keyOf(ns))
}

// AllocsByEval returns the allocations that an evaluation created or changed last.
func (s *Snapshot) AllocsByEval(ws memdb.WatchSet, eval string) iter.Seq[*nomad.Allocation] {
	return allocs.by(s.tx, ws, "eval", keyOf(eval))
}

// AllocsByDeployment returns the allocations of a deployment.
func (s *Snapshot) AllocsByDeployment(ws memdb.WatchSet, deployment string) iter.Seq[*nomad.Allocation] {
	return allocs.by(s.tx, ws, "deployment", keyOf(deployment))
}

// storeAlloc puts an allocation that the caller owns over old, nil for a new
// one, and brings along what follows from it: counts of its job and of its
// deployment, and what others want to hear.
func (t *txn) storeAlloc(a, old *nomad.Allocation, c counts) {
	allocs.put(t, a)
	t.account(a, old)
	c.moved(a, old)
	t.countInDeployment(a, old)
	if old == nil {
		return
	}
	if a.ClientTerminalStatus() && !old.ClientTerminalStatus() {
		t.changes.Stopped = append(t.changes.Stopped, a)
	}
	if a.ClientStatus != old.ClientStatus || health(a) != health(old) {
		t.changes.Allocs = append(t.changes.Allocs, a)
	}
}

// UpdateAllocsFromClient merges what nodes say of their allocations. Only the
// fields that belong to the client are taken.
func (s *Store) UpdateAllocsFromClient(index uint64, req *nomad.AllocUpdateRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		touched := map[nomad.NamespacedID]bool{}
		reported := map[string]bool{}
		c := counts{}
		for _, update := range req.Alloc {
			old := allocs.get(t, nil, keyOf(update.ID))
			if old == nil {
				continue // collected meanwhile
			}
			a := *old
			mergeClient(&a, update, index)
			t.storeAlloc(&a, old, c)
			reported[a.NodeID] = true
			if a.TerminalStatus() != old.TerminalStatus() {
				touched[a.JobNamespacedID()] = true
			}
		}
		t.applyCounts(c)
		for _, id := range sortedKeys(reported) {
			t.nodeReported(id)
		}
		for _, e := range req.Evals {
			stored := *e
			t.upsertEvals(&stored)
			touched[nomad.NamespacedID{ID: e.JobID, Namespace: e.Namespace}] = true
		}
		t.setJobStatuses(touched)
		return nil
	})
}

// mergeClient copies the client's fields from update to a.
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
	if update.DeploymentStatus != nil {
		setHealth(a, update.DeploymentStatus, index)
	}
	a.ModifyIndex, a.ModifyTime = index, update.ModifyTime
}

// setHealth takes health and its time from reported; whether the allocation is
// a canary is the servers' word.
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

// nodeReported notes that a node which had missed heartbeats has told of its
// allocations since: from then on it may be ready.
func (t *txn) nodeReported(id string) {
	n := nodes.get(t, nil, keyOf(id))
	if n == nil || n.LastMissedHeartbeatIndex == 0 || n.LastAllocUpdateIndex > n.LastMissedHeartbeatIndex {
		return
	}
	updated := *n
	updated.LastAllocUpdateIndex, updated.ModifyIndex = t.index, t.index
	nodes.put(t, &updated)
}

// UpdateDesiredTransitions tells the scheduler what shall become of
// allocations, and upserts the evaluations that make it happen.
func (s *Store) UpdateDesiredTransitions(index uint64, req *nomad.AllocUpdateDesiredTransitionRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, id := range sortedKeys(req.Allocs) {
			if a := allocs.get(t, nil, keyOf(id)); a != nil {
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

// transition merges what is set in add into the allocation's desired transition.
func (t *txn) transition(old *nomad.Allocation, add *nomad.DesiredTransition) {
	if add == nil {
		return
	}
	a := *old
	d := &a.DesiredTransition
	for _, f := range []struct{ to, from **bool }{
		{&d.Migrate, &add.Migrate},
		{&d.Reschedule, &add.Reschedule},
		{&d.ForceReschedule, &add.ForceReschedule},
		{&d.NoShutdownDelay, &add.NoShutdownDelay},
		{&d.MigrateDisablePlacement, &add.MigrateDisablePlacement},
	} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
	a.ModifyIndex = t.index
	// The client must see it too: an allocation is fetched when this index grows.
	a.AllocModifyIndex = t.index
	allocs.put(t, &a)
}
