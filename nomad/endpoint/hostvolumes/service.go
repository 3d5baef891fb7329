// Package hostvolumes handles the RPC methods of dynamic host volumes and of the claims of sticky requests.
//
//	Create:   check ─▶ choose a node ─▶ plugin of the node ─▶ log entry
//	Register: check ────────────────▶ path on the node ────▶ log entry
//	Delete:   check ────────────────▶ plugin of the node ──▶ log entry
//
// One operation at a time runs on a volume, and on a name of a node. If the log rejects a new volume, the node deletes
// it again. If the outcome of the entry is unknown, the volume stays on the node, which reports it with its ID.
//
// Only the leader runs these methods, so that the running operations are in its memory. The package starts no goroutine.
package hostvolumes

import (
	"sync"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
)

// Service handles the methods of host volumes.
type Service struct {
	*handler.Core

	mu   sync.Mutex
	busy map[string]bool // volumes, and names on nodes, of running operations
}

// New returns a Service.
func New(core *handler.Core) *Service { return &Service{Core: core, busy: map[string]bool{}} }

// begin reserves a volume for one operation.
func (s *Service) begin(id string) (end func(), err error) {
	end, ok := s.take("volume " + id)
	if !ok {
		return nil, nomad.Errorf(409, "another operation on volume %s is running: try again when it has ended", id)
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
