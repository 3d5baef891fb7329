package untrusted

import (
	"sync"
	"time"
)

// Shared are slots of which each caller occupies or awaits one at a time. So a caller with many requests delays its own
// ones, and not those of others.
type Shared struct {
	Slots

	mu    sync.Mutex
	turns map[string]*turn // of the callers with complex filters
}

// turn is held by one request of a caller.
type turn struct {
	slots chan struct{}
	users int // requests that hold or await it
}

// Parse is ParseFilter for the text of a request of a caller. One of more than usualSteps waits for a slot.
func (s *Shared) Parse(caller, text string) (*Filter, error) {
	if f, done, err := parseUsual(text); done {
		return f, err
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	leave, err := s.enter(caller, timer)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.parse(text, timer)
}

// enter waits for the turn of a request of the caller.
func (s *Shared) enter(caller string, timer *time.Timer) (leave func(), err error) {
	s.mu.Lock()
	t := s.turns[caller]
	if t == nil {
		t = &turn{slots: make(chan struct{}, 1)}
		s.turns[caller] = t
	}
	t.users++
	s.mu.Unlock()
	done := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(s.turns, caller)
		}
	}
	select {
	case t.slots <- struct{}{}:
		return func() { <-t.slots; done() }, nil
	case <-timer.C:
		done()
		return nil, ErrBusy
	}
}
