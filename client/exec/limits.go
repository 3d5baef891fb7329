package exec

import (
	"net/http"
	"sync"

	"github.com/open-nomad/open-nomad/internal/slots"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Maximum numbers of concurrent sessions.
const (
	MaxPerAlloc = 32
	MaxPerNode  = 256
)

// Limits counts the sessions of a node.
type Limits struct {
	what  string // the name of the sessions in errors
	slots *slots.Set[string]
}

// NewLimits returns the limits of sessions that errors call what.
func NewLimits(what string) *Limits { return &Limits{what, slots.New[string](MaxPerAlloc, MaxPerNode)} }

// Take counts a new session of an allocation, until release is called.
func (l *Limits) Take(alloc string) (release func(), err error) {
	switch {
	case l.slots.Take(alloc) > 0:
		return sync.OnceFunc(func() { l.slots.Release(alloc) }), nil
	case l.slots.Used(alloc) >= MaxPerAlloc:
		return nil, apierror.Errorf(http.StatusTooManyRequests, "allocation %s has %d %s, which is the maximum: end one of them", alloc,
			MaxPerAlloc, l.what)
	}
	return nil, apierror.Errorf(http.StatusTooManyRequests, "the node has %d %s, which is the maximum: end one of them", MaxPerNode, l.what)
}
