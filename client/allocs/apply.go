package allocs

import (
	"maps"

	"github.com/open-nomad/open-nomad/nomad"
)

// outdated returns the listed allocations that the node lacks or has in an older version, with
// the index they must have. When the servers' state was replaced, it also returns those that
// the node has in a newer version, since the servers have lost that version.
func (s *Set) outdated(listed map[string]uint64, replaced bool) map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[string]uint64{}
	for id, index := range listed {
		noted, found := s.gone[id]
		have, newer := noted.index, false
		if e := s.entries[id]; e != nil {
			have, found = e.alloc.AllocModifyIndex, true
			newer = replaced && have > index
		}
		if !found || have < index || newer {
			wanted[id] = index
		}
	}
	return wanted
}

// apply brings the node to the state that the servers list. fetched holds the new and changed
// allocations.
func (s *Set) apply(listed map[string]uint64, fetched []*nomad.Allocation) {
	for _, e := range s.unlisted(listed) {
		s.log.Info("remove an allocation that the servers no longer list", "alloc", e.ID)
		s.wg.Go(func() { s.remove(e) })
	}
	for _, a := range fetched {
		s.take(a)
	}
}

// unlisted deletes the gone entries, and returns the entries, that the servers do not
// list.
func (s *Set) unlisted(listed map[string]uint64) []*Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.gone, func(id string, _ gone) bool {
		_, ok := listed[id]
		if !ok && s.undeleted[id] == nil && !s.unrestored[id] {
			s.db.DeleteAllocLater(id)
		}
		return !ok
	})
	var out []*Entry
	for id, e := range s.entries {
		if _, ok := listed[id]; !ok && !e.removing {
			e.removing = true
			out = append(out, e)
		}
	}
	return out
}

// take starts an allocation, or passes its new version to its runner.
func (s *Set) take(a *nomad.Allocation) {
	if s.passOn(a) {
		return
	}
	switch {
	case a.ClientTerminalStatus():
		status := final(a, a.ClientStatus, a.ClientDescription)
		s.record(a, status)
		if a.ClientStatus == nomad.AllocClientStatusLost {
			s.updates.put(status) // the servers need a report from the node itself
		}
	case a.ServerTerminalStatus():
		// Stopped before it reached the node: no runner reports its end.
		status := final(a, nomad.AllocClientStatusComplete, "stopped before it was started")
		s.record(a, status)
		s.updates.put(status)
	default:
		s.start(a)
	}
}

// passOn gives the new version to the runner, if there is one.
func (s *Set) passOn(a *nomad.Allocation) bool {
	s.mu.Lock()
	e := s.entries[a.ID]
	if e != nil {
		e.alloc = a
	}
	s.mu.Unlock()
	if e == nil {
		return false
	}
	s.db.PutAllocWithNext(a)
	e.Runner.Update(a)
	if a.ClientStatus == nomad.AllocClientStatusUnknown {
		s.resend(e)
	}
	return true
}

func (s *Set) record(a, status *nomad.Allocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[a.ID] = gone{a.AllocModifyIndex, status}
}

// final returns the status that is sent for an allocation without a runner.
func final(a *nomad.Allocation, status, why string) *nomad.Allocation {
	return &nomad.Allocation{ID: a.ID, NodeID: a.NodeID, JobID: a.JobID, Namespace: a.Namespace,
		ClientStatus: status, ClientDescription: why, TaskStates: a.TaskStates}
}

// start runs an allocation that is new on the node.
func (s *Set) start(a *nomad.Allocation) {
	if s.reclaim(a.ID) {
		s.db.DeleteAllocLater(a.ID) // what an earlier agent stored
	}
	s.db.PutAllocWithNext(a)
	r, err := s.cfg.Node.NewRunner(a)
	if err != nil {
		s.refuse(a, err)
		return
	}
	s.run(a, r)
}

// refuse reports to the servers that an allocation cannot run here. Its stored state stays
// until the servers no longer list it.
func (s *Set) refuse(a *nomad.Allocation, err error) {
	s.log.Error("run allocation", "alloc", a.ID, "err", err)
	status := final(a, nomad.AllocClientStatusFailed, err.Error())
	s.record(a, status)
	s.updates.put(status)
}

// resendListed queues the last status of every allocation that the servers list.
func (s *Set) resendListed(listed map[string]uint64) {
	s.mu.Lock() // held until all are queued: a status that arrives meanwhile is newer
	defer s.mu.Unlock()
	for id := range listed {
		status := s.gone[id].status
		if e := s.entries[id]; e != nil {
			status = e.status
		}
		if status != nil {
			s.updates.putOlder(status)
		}
	}
}

// ResendAll queues the last status of every allocation with a runner. Servers that had marked the node
// as down or disconnected wait for it.
func (s *Set) ResendAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.status != nil {
			s.updates.putOlder(e.status)
		}
	}
}

// resend queues the last status of an allocation.
func (s *Set) resend(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.status != nil {
		s.updates.putOlder(e.status)
	}
}
