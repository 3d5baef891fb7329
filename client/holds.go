package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/nomad"
)

// Reasons why a removal cannot be claimed.
var (
	errRemoving = errors.New("it is being removed")
	errHeld     = errors.New("its data is being read or moved")
)

// hold protects the data of an allocation until release is called: the collector skips the allocation, and a removal
// for the servers waits. It fails if the removal has begun.
func (s *allocSet) hold(id string) (h *held, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h = s.held[id]
	if h == nil || h.removing {
		return nil, nil, nomad.UnknownAlloc(id)
	}
	h.holds++
	return h, sync.OnceFunc(func() { s.release(h) }), nil
}

func (s *allocSet) release(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.holds--
	if h.holds == 0 && h.free != nil {
		close(h.free)
		h.free = nil
	}
}

// claim reserves the removal of an allocation for the caller. From then on, nobody can hold it.
func (s *allocSet) claim(h *held) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case h.removing:
		return errRemoving
	case h.holds > 0:
		return errHeld
	}
	h.removing = true
	return nil
}

// condemn reserves the removal of an allocation that must stop, also if its data is held: remove then waits after the
// tasks have ended. It reports false if the allocation is being removed already.
func (s *allocSet) condemn(h *held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !h.removing
	h.removing = true
	return first
}

// awaitFree waits until nobody holds an allocation that is being removed.
func (s *allocSet) awaitFree(ctx context.Context, h *held) error {
	s.mu.Lock()
	if h.holds == 0 {
		s.mu.Unlock()
		return nil
	}
	if h.free == nil {
		h.free = make(chan struct{})
	}
	free := h.free
	s.mu.Unlock()
	select {
	case <-free:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("remove allocation %s: %w: %w", h.id, errHeld, ctx.Err())
	}
}

// destroyFree stops an allocation and removes it from the node, once nobody holds it.
func (s *allocSet) destroyFree(ctx context.Context, h *held) error {
	if err := h.runner.Stop(ctx); err != nil {
		return err
	}
	if err := s.awaitFree(ctx, h); err != nil {
		return err
	}
	return h.runner.Destroy(ctx)
}

// remove stops an allocation, if it still runs, and destroys its directory and its state. If the agent ends first, the
// next agent restores the allocation. The caller has claimed it.
func (s *allocSet) remove(h *held) {
	err := s.destroy(s.life, h)
	if err != nil && s.life.Err() != nil {
		return
	}
	if err != nil {
		s.log.Error("destroy allocation: it is tried again", "alloc", h.id, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[h.id] = gone{h.alloc.AllocModifyIndex, h.status}
	delete(s.held, h.id)
	if err != nil {
		s.undeleted[h.id] = func(ctx context.Context) error { return s.destroy(ctx, h) }
	}
}

// removal removes the directory and the stored state of an allocation that does not run.
type removal func(ctx context.Context) error

// removeAgain tries the removals in undeleted. The stored state remains until one succeeds, so that the next agent also
// tries.
func (s *allocSet) removeAgain() {
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
func (s *allocSet) removeUndeleted(id string) error {
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
// there was one.
func (s *allocSet) reclaim(id string) bool {
	left := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.undeleted[id] != nil || s.unrestored[id]
	}
	if !left() {
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
func (s *allocSet) setUnrestored(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unrestored[id] = true
}

// removeUnrestored removes the allocations that could not be restored, with remove. Their processes have ended.
func (s *allocSet) removeUnrestored(remove func(ctx context.Context, id string) error) {
	s.mu.Lock()
	for id := range s.unrestored {
		s.undeleted[id] = func(ctx context.Context) error { return remove(ctx, id) }
	}
	clear(s.unrestored)
	s.mu.Unlock()
	s.removeAgain()
}
