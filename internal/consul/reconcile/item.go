package reconcile

import (
	"context"
	"time"

	"github.com/hashicorp/consul/api"
)

// need is what a service needs.
type need int

const (
	settled need = iota // nothing
	compare             // the next list, since Consul may have the service already
	drift               // registration, because the list of Consul differs
	change              // registration, because Set changed it
	renew               // registration, because its token has changed
)

// presence is whether Consul has a service.
type presence int

const (
	unknown presence = iota
	absent
	present
)

// item is a service that is wanted or has to be removed. Reconciler.mu guards it.
type item struct {
	id, owner string
	want      *Service // nil: to be removed
	last      *Service // the last one that was wanted, nil for a leftover
	version   uint64   // of want
	need      need
	presence  presence
	sidecar   bool      // Consul may have a sidecar of it
	override  *override // of the last list, with EnableTagOverride
	stale     bool      // renew waits for a list, so that it repeats the newest override
	token     string    // its own token at the last registration, "" if that is unknown
	missing   []*api.AgentServiceCheck
	surplus   []string // check IDs

	urgent bool          // removal that has not been attempted
	after  bool          // removal that waits for the new services of the owner
	fresh  bool          // wanted by Set, and not attempted since
	done   chan struct{} // closed after the first attempt of a removal
	gone   time.Time     // when the removal was acknowledged

	busy    bool // a request about it is in progress
	cancel  context.CancelFunc
	touched uint64 // sequence of the last change or request
	retryAt time.Time

	registered bool
	unlisted   int // lists in a row that did not have it although it was registered
	since      time.Time
	failures   int // in a row
	reported   bool
	err        error
}

// override are the tags that others set in Consul, for a service with EnableTagOverride.
type override struct{ service, sidecar []string }

// state returns the state of a wanted service.
func (i *item) state() State {
	return State{ID: i.id, Name: i.want.Registration.Name, Registered: i.registered, Since: i.since, Failures: i.failures, Err: i.err}
}

// settle records that Consul has the service as it is wanted.
func (i *item) settle(now time.Time) {
	if !i.registered || i.failures > 0 {
		i.since = now
	}
	i.need, i.override, i.registered, i.failures, i.err, i.retryAt = settled, nil, true, 0, nil, time.Time{}
}

// attempted ends the wait of Remove.
func (i *item) attempted() {
	i.urgent = false
	if i.done != nil {
		close(i.done)
		i.done = nil
	}
}

// hasSidecar reports whether a service is registered with a sidecar.
func hasSidecar(s *Service) bool {
	return s != nil && s.Registration.Connect != nil && s.Registration.Connect.SidecarService != nil
}

// wants reports whether a wanted service has a check.
func (i *item) wants(checkID string) bool {
	for _, c := range i.want.Registration.Checks {
		if c.CheckID == checkID {
			return true
		}
	}
	return false
}
