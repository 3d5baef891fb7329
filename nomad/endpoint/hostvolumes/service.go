// Package hostvolumes handles the RPC methods of dynamic host volumes and of the claims of sticky requests.
//
//	Create:   check ─▶ choose a node ─▶ plugin of the node ─▶ log entry
//	Register: check ────────────────▶ path on the node ────▶ log entry
//	Delete:   check ────────────────▶ plugin of the node ──▶ log entry
//
// Before an existing volume is deleted or updated, it is withheld from plans: from then on no plan places an allocation
// that uses it, and the check for users sees every earlier one. It is usable again when the operation has ended. The
// node checks its own allocations too, because a new leader withholds nothing, and because an allocation may run on a
// node that the servers count as lost.
//
// One operation at a time runs on a volume, and on a name of a node. If the log rejects a new volume, the node deletes
// it again. If the outcome of the entry is unknown, the volume stays on the node, which reports it with its ID.
//
// Only the leader runs these methods, so that the running operations are in its memory. The package starts no goroutine.
package hostvolumes

import (
	"sync"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Plans commits the plans (plan.Applier).
type Plans interface {
	// Withhold makes a volume unusable for plans until release is called. Earlier plans are committed.
	Withhold(volume string) (release func())
}

// Blocked holds the evaluations that wait (broker.Blocked).
type Blocked interface {
	// UnblockFailed retries the evaluations whose plans were rejected.
	UnblockFailed()
}

// Config configures a Service.
type Config struct {
	Plans   Plans
	Blocked Blocked
}

// Service handles the methods of host volumes.
type Service struct {
	*handler.Core
	cfg Config

	mu   sync.Mutex
	busy map[string]bool // volumes, and names on nodes, of running operations
}

// New returns a Service.
func New(core *handler.Core, cfg Config) *Service {
	return &Service{Core: core, cfg: cfg, busy: map[string]bool{}}
}

// withheld returns a stored volume, nil if the namespace has none with the ID, and withholds it from plans until release
// is called. The snapshot has every allocation that an earlier plan placed on it.
func (s *Service) withheld(namespace, id string) (snap *state.Snapshot, v *hostvolume.Volume, release func()) {
	snap = s.Snapshot()
	if snap.HostVolume(nil, namespace, id) == nil {
		return snap, nil, func() {}
	}
	end := s.cfg.Plans.Withhold(id)
	snap = s.Snapshot()
	return snap, snap.HostVolume(nil, namespace, id), func() {
		end()
		s.cfg.Blocked.UnblockFailed()
	}
}

// begin reserves a volume for one operation.
func (s *Service) begin(id string) (end func(), err error) {
	end, ok := s.take("volume " + id)
	if !ok {
		return nil, apierror.Errorf(409, "another operation on volume %s is running: try again when it has ended", id)
	}
	return end, nil
}

// take reserves a key, and reports whether it was free.
func (s *Service) take(key string) (free func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[key] {
		return nil, false
	}
	s.busy[key] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, key)
	}, true
}
