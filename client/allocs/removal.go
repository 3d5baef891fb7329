package allocs

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/client/allocdir"
)

// destroyFree stops an allocation and removes it from the node, once nobody holds it.
func (s *Set) destroyFree(ctx context.Context, e *Entry) error {
	if err := e.Runner.Stop(ctx); err != nil {
		return err
	}
	if err := s.awaitFree(ctx, e); err != nil {
		return err
	}
	return e.Runner.Destroy(ctx)
}

// remove stops an allocation, if it still runs, and destroys its directory and its state. If the agent ends first, the
// next agent restores the allocation. The caller has claimed it.
func (s *Set) remove(e *Entry) {
	err := s.destroy(s.life, e)
	if err != nil && s.life.Err() != nil {
		return
	}
	if err != nil {
		s.log.Error("destroy allocation: it is tried again", "alloc", e.ID, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[e.ID] = gone{e.alloc.AllocModifyIndex, e.status}
	delete(s.entries, e.ID)
	if err != nil {
		s.undeleted[e.ID] = func(ctx context.Context) error { return s.destroy(ctx, e) }
	}
}

// removal removes the directory and the stored state of an allocation that does not run.
type removal func(ctx context.Context) error

// removeAgain tries the removals in undeleted. The stored state remains until one succeeds, so that the next agent also
// tries.
func (s *Set) removeAgain() {
	s.mu.Lock()
	ids := slices.Sorted(maps.Keys(s.undeleted))
	s.mu.Unlock()
	for _, id := range ids {
		if err := s.removeUndeleted(id); err != nil {
			s.log.Warn("destroy allocation: it is tried again", "alloc", id, "err", err)
		}
	}
}

// removeUndeleted tries the removal of one allocation, unless it is started again meanwhile.
func (s *Set) removeUndeleted(id string) error {
	s.removal.Lock()
	defer s.removal.Unlock()
	s.mu.Lock()
	remove := s.undeleted[id]
	s.mu.Unlock()
	if remove == nil {
		return nil
	}
	if err := remove(s.life); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.undeleted, id)
	return nil
}

// reclaim ends the removal of an allocation that starts again, and waits for an attempt that has begun. It reports whether
// the allocation was to be removed.
func (s *Set) reclaim(id string) bool {
	s.mu.Lock()
	remains := s.undeleted[id] != nil || s.unrestored[id]
	s.mu.Unlock()
	if !remains {
		return false
	}
	s.removal.Lock()
	defer s.removal.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.undeleted, id)
	delete(s.unrestored, id)
	return true
}

// setUnrestored records an allocation of the previous agent that cannot be restored.
func (s *Set) setUnrestored(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unrestored[id] = true
}

// removeUnrestored removes the directories, networks and stored states of allocations that could not be restored. Their
// processes have ended.
func (s *Set) removeUnrestored() {
	s.mu.Lock()
	for id := range s.unrestored {
		s.undeleted[id] = func(context.Context) error { return s.removeStored(id) }
	}
	clear(s.unrestored)
	s.mu.Unlock()
	s.removeAgain()
}

// removeStored removes what is on the node of an allocation without a runner.
func (s *Set) removeStored(id string) error {
	if err := allocdir.Destroy(s.cfg.Dir, id); err != nil {
		return err
	}
	s.cfg.Node.Abandon(id)
	s.cfg.Users.Release(id)
	return errors.Join(s.db.DeleteAlloc(id), s.db.Forget(id))
}

// removeUncommitted removes what a killed agent has left of allocations that it began and did not store. The answer of the
// servers has been applied: those that run are in entries. The others are stopped, lost, or no longer listed. None of their
// tasks has run.
func (s *Set) removeUncommitted() {
	ids, err := s.db.Uncommitted()
	if err != nil {
		s.log.Error("remove what an earlier agent has begun", "err", err)
		return
	}
	s.mu.Lock()
	for _, id := range ids {
		if s.entries[id] == nil {
			s.undeleted[id] = func(context.Context) error { return s.removeStored(id) }
		}
	}
	s.mu.Unlock()
	s.removeAgain()
}
