package allocs

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Reasons why a removal cannot be claimed.
var (
	errRemoving = errors.New("it is being removed")
	errInUse    = errors.New("its data is being read or moved")
)

// hold protects the data of an allocation until release is called: the collector skips the allocation, and a removal
// for the servers waits. It fails if the removal has begun.
func (s *Set) hold(id string) (e *Entry, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e = s.entries[id]
	if e == nil || e.removing {
		return nil, nil, apierror.UnknownAlloc(id)
	}
	e.holds++
	return e, sync.OnceFunc(func() { s.release(e) }), nil
}

func (s *Set) release(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.holds--
	if e.holds == 0 && e.free != nil {
		close(e.free)
		e.free = nil
	}
}

// claim reserves the removal of an allocation for the caller. From then on, nobody can hold it.
func (s *Set) claim(e *Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.removing:
		return errRemoving
	case e.holds > 0:
		return errInUse
	}
	e.removing = true
	return nil
}

// markRemoving reserves the removal of an allocation that must stop, also if its data is in use: remove then waits after the
// tasks have ended. It reports false if the allocation is being removed already.
func (s *Set) markRemoving(e *Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !e.removing
	e.removing = true
	return first
}

// awaitFree waits until nobody holds an allocation that is being removed.
func (s *Set) awaitFree(ctx context.Context, e *Entry) error {
	s.mu.Lock()
	if e.holds == 0 {
		s.mu.Unlock()
		return nil
	}
	if e.free == nil {
		e.free = make(chan struct{})
	}
	free := e.free
	s.mu.Unlock()
	select {
	case <-free:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("remove allocation %s: %w: %w", e.ID, errInUse, ctx.Err())
	}
}
