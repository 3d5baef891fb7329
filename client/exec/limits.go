package exec

import (
	"net/http"
	"sync"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Maximum numbers of concurrent sessions.
const (
	MaxPerAlloc = 32
	MaxPerNode  = 256
)

// Limits counts the sessions of a node. The zero value is ready to use.
type Limits struct {
	mu    sync.Mutex
	total int
	of    map[string]int // allocation → sessions
}

// Take counts a new session of an allocation, until release is called.
func (l *Limits) Take(alloc string) (release func(), err error) {
	return l.TakeAs("exec sessions", alloc)
}

// TakeAs is Take for sessions that errors call what.
func (l *Limits) TakeAs(what, alloc string) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.of[alloc] >= MaxPerAlloc:
		return nil, apierror.Errorf(http.StatusTooManyRequests, "allocation %s has %d %s, which is the maximum: end one of them", alloc,
			MaxPerAlloc, what)
	case l.total >= MaxPerNode:
		return nil, apierror.Errorf(http.StatusTooManyRequests, "the node has %d %s, which is the maximum: end one of them", MaxPerNode, what)
	}
	if l.of == nil {
		l.of = map[string]int{}
	}
	l.of[alloc]++
	l.total++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.total--
		if l.of[alloc]--; l.of[alloc] == 0 {
			delete(l.of, alloc)
		}
	}), nil
}

// Running returns the number of sessions.
func (l *Limits) Running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}
