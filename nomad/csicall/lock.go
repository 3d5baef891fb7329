package csicall

import (
	"context"
	"fmt"
	"sync"
)

// locks are the locks of volumes that are held or awaited.
type locks struct {
	mu   sync.Mutex
	held map[volume]*lock
}

// volume is the key of a lock.
type volume struct{ namespace, id string }

// lock is held by the call that has sent to slot.
type lock struct {
	slot  chan struct{}
	users int // calls that hold or await it
}

// Lock waits until no other caller holds the lock of a volume, or until ctx ends. The CSI specification allows one call in
// flight for a volume.
func (c *Caller) Lock(ctx context.Context, namespace, id string) (unlock func(), err error) {
	l := c.locks.join(volume{namespace, id})
	leave := func() { c.locks.leave(volume{namespace, id}) }
	select {
	case l.slot <- struct{}{}:
		return sync.OnceFunc(func() { <-l.slot; leave() }), nil
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("another call of volume %q is in progress: %w", id, ctx.Err())
	}
}

func (s *locks) join(v volume) *lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.held[v]
	if l == nil {
		if s.held == nil {
			s.held = map[volume]*lock{}
		}
		l = &lock{slot: make(chan struct{}, 1)}
		s.held[v] = l
	}
	l.users++
	return l
}

func (s *locks) leave(v volume) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.held[v]; l.users == 1 {
		delete(s.held, v)
	} else {
		l.users--
	}
}
