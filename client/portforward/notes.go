package portforward

import (
	"sync"
	"time"
)

// Limits of the events: a browser opens many connections, and an allocation has few events.
const (
	noteEvery = 10 * time.Minute
	maxNotes  = 1024
)

// Note identifies what an event is about.
type Note struct{ Alloc, Port, Accessor string }

// Notes decides which connections become an event. The zero value is ready to use.
type Notes struct {
	mu   sync.Mutex
	last map[Note]time.Time
}

// Due reports whether an event is due for a connection at a time: the first one of a caller to
// a port, and then one in ten minutes.
func (n *Notes) Due(note Note, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.last[note]; ok && now.Sub(at) < noteEvery {
		return false
	}
	if n.last == nil {
		n.last = map[Note]time.Time{}
	}
	if len(n.last) >= maxNotes {
		for old, at := range n.last {
			if now.Sub(at) >= noteEvery {
				delete(n.last, old)
			}
		}
		if len(n.last) >= maxNotes { // all are recent
			clear(n.last)
		}
	}
	n.last[note] = now
	return true
}
